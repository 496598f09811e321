package migrate

import (
	"strings"
	"testing"
	"testing/fstest"
)

func files(texts map[string]string) fstest.MapFS {
	m := make(fstest.MapFS)
	for name, text := range texts {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

// TestScript checks that the script has the migrations in their order, for the chosen
// schema, and records each.
func TestScript(t *testing.T) {
	script, err := Script(files(map[string]string{
		"0001_first.sql":  "create table courier.a (n int);",
		"0002_second.sql": "create table courier.b (n int);",
	}), "other")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{
		`create schema if not exists "other"`, `create table if not exists "other".schema_migrations`,
		`create table "other".a`, `values (1, 'first', `, `create table "other".b`, `values (2, 'second', `,
	} {
		i := strings.Index(script[at:], want)
		if i < 0 {
			t.Fatalf("%q is missing or out of order in\n%s", want, script)
		}
		at += i
	}
}

// TestNumbers refuses files whose numbers do not count from 1.
func TestNumbers(t *testing.T) {
	for _, names := range [][]string{{"0002_a.sql"}, {"0001_a.sql", "0003_b.sql"}, {"0001_a.sql", "0001_b.sql"}, {"first.sql"}} {
		texts := make(map[string]string)
		for _, name := range names {
			texts[name] = "select 1"
		}
		if _, err := Script(files(texts), "courier"); err == nil || !strings.Contains(err.Error(), "the number must be") {
			t.Errorf("%q: %v, want an error about the number", names, err)
		}
	}
}

// TestChecksum checks that comments and white space do not change a checksum, and that
// words do.
func TestChecksum(t *testing.T) {
	base := checksum("create table courier.a (\n\tn int -- a number\n);\n")
	if got := checksum("-- A table.\ncreate table courier.a ( n int\n\n);"); got != base {
		t.Error("a comment changes the checksum")
	}
	if got := checksum("create table courier.a (\n\tm int\n);\n"); got == base {
		t.Error("another column does not change the checksum")
	}
}
