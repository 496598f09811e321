package bind_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// TestTextColumn: a column is an empty array as long as all of its texts are empty, and never null.
func TestTextColumn(t *testing.T) {
	c := bind.TextColumn{N: 3}
	c.Set(1, "")
	if !c.Empty() || c.Arg() == nil || len(c.Arg()) != 0 {
		t.Errorf("%q", c.Arg())
	}
	if c.Set(2, "a"); c.Empty() || !slices.Equal(c.Arg(), []string{"", "", "a"}) {
		t.Errorf("%q", c.Arg())
	}
}

// TestID: an id is a UUID in lower case with its four dashes. Any other text is one that nothing
// has, since Postgres refuses it or takes it for another.
func TestID(t *testing.T) {
	const id = "0190a2b4-c5d6-7e8f-9012-34567890abcd"
	for text, is := range map[string]bool{
		id: true, "ffffffff-ffff-ffff-ffff-ffffffffffff": true, strings.ToUpper(id): false, strings.ReplaceAll(id, "-", ""): false, "{" + id + "}": false, "": false, id + " ": false,
		strings.Replace(id, "a", "g", 1): false, "0190a2b4c-5d6-7e8f-9012-34567890abcd": false, "0190a2b4-c5d6-7e8f-9012-3456789-abcd": false,
		"0190a2b4-c5d6-7e8f-9012-34567890ab\x00d": false, "'; drop table executions; --1234567890": false,
	} {
		want := bind.NilUUID
		if is {
			want = text
		}
		if got := bind.ID(text); got != want || (bind.UUIDOf(text) != bind.UUID{}) != is {
			t.Errorf("%q is %s", text, got)
		}
	}
	if bind.OptionalID("") != "" || bind.OptionalID("x") != bind.NilUUID || bind.OptionalID(id) != id {
		t.Error("an optional id is another one")
	}
}

// TestUUIDs: ids have the same value in the binary form and as a text.
func TestUUIDs(t *testing.T) {
	const a, b = "0190a2b4-c5d6-7e8f-9012-34567890abcd", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	list := bind.UUIDs{bind.UUIDOf(a), bind.UUIDOf(b)}
	text, err := list.Value()
	if want := "{" + strings.ReplaceAll(a+","+b, "-", "") + "}"; err != nil || text != want {
		t.Errorf("%v, %v", text, err)
	}
	if text, err := (bind.UUIDs{}).Value(); err != nil || text != "{}" {
		t.Errorf("none are %v, %v", text, err)
	}
	types := pgtype.NewMap()
	buf, err := types.Encode(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	var back []pgtype.UUID
	if err := types.Scan(pgtype.UUIDArrayOID, pgtype.BinaryFormatCode, buf, &back); err != nil || len(back) != 2 || back[0].String() != a || back[1].String() != b {
		t.Errorf("%v, %v", back, err)
	}
}

// TestArray: what PostgreSQL reads from the text of an array are the texts, whatever is in them.
func TestArray(t *testing.T) {
	for _, list := range [][]string{nil, {""}, {"a", "b c"}, {"NULL", "null"}, {`a"b`, `\`, `\"`, `{,}`, " x ", "ü\n"}} {
		var got []string
		if err := pgtype.NewMap().Scan(pgtype.TextArrayOID, pgtype.TextFormatCode, []byte(bind.Array(list)), &got); err != nil || !slices.Equal(got, list) {
			t.Errorf("%q is %q, %v", list, got, err)
		}
	}
}
