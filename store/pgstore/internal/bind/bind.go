// Package bind has parameters of statements in forms that are cheap to send and to read: columns
// that are mostly empty, and ids in binary.
package bind

import (
	"database/sql/driver"
	"encoding/hex"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// A TextColumn is a parameter that is an array of n texts. If all of them are empty, the
// array is empty too, which costs little to send and to read.
type TextColumn struct {
	N    int // its length
	list []string
}

// Set sets a text.
func (t *TextColumn) Set(i int, s string) {
	if s == "" {
		return
	}
	if t.list == nil {
		t.list = make([]string, t.N)
	}
	t.list[i] = s
}

// Empty reports whether all texts are empty.
func (t *TextColumn) Empty() bool { return t.list == nil }

// Arg returns the parameter.
func (t *TextColumn) Arg() []string {
	if t.list == nil {
		return []string{}
	}
	return t.list
}

// UUIDs are a parameter of the type uuid[]. The binary form has half the size of the
// text, and the server need not parse it.
type UUIDs []UUID

// A UUID is a UUID in binary.
type UUID [16]byte

// UUIDValue returns the value as pgx encodes it.
func (u *UUID) UUIDValue() (pgtype.UUID, error) {
	return pgtype.UUID{Bytes: *u, Valid: true}, nil
}

// Dimensions returns that there is one.
func (u UUIDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(u)), LowerBound: 1}}
}

// Index returns an element.
func (u UUIDs) Index(i int) any { return &u[i] }

// IndexType returns an element of the type.
func (u UUIDs) IndexType() any { return (*UUID)(nil) }

// Value returns the parameter as text, for the query modes of pgx that do not get its
// type from the server.
func (u UUIDs) Value() (driver.Value, error) {
	b := []byte{'{'}
	for i := range u {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, u[i][:])
	}
	return string(append(b, '}')), nil
}

// Array returns a list of texts as the text of a PostgreSQL array, for a row of a column of such
// texts: PostgreSQL has no arrays of arrays of different lengths.
func Array(list []string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, s := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('"')
		for at := range len(s) {
			if s[at] == '"' || s[at] == '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[at])
		}
		b.WriteByte('"')
	}
	b.WriteByte('}')
	return b.String()
}

// NilUUID is an id that no execution has.
const NilUUID = "00000000-0000-0000-0000-000000000000"

// ID returns text as a UUID that PostgreSQL accepts. If text is not a UUID, it returns the UUID
// that no execution has.
func ID(s string) string {
	if UUIDOf(s) == (UUID{}) {
		return NilUUID
	}
	return s
}

// OptionalID is [ID] for text that may be empty.
func OptionalID(s string) string {
	if s == "" {
		return ""
	}
	return ID(s)
}

// UUIDOf is [ID] in binary.
func UUIDOf(s string) (b UUID) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || strings.ContainsAny(s, "ABCDEF") {
		return b
	}
	var digits [32]byte
	for from, to := 0, 0; from < len(s); from++ {
		if s[from] != '-' && to < len(digits) {
			digits[to] = s[from]
			to++
		}
	}
	if _, err := hex.Decode(b[:], digits[:]); err != nil {
		return UUID{}
	}
	return b
}
