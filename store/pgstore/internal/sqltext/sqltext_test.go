package sqltext

import (
	"testing"
	"testing/fstest"
)

// TestRead reads a file with comments and with a part in another folder.
func TestRead(t *testing.T) {
	files := fstest.MapFS{
		"a/b.sql":     {Data: []byte("-- Says what it does.\nselect\n\\ir ../c/d.sql\n\t, 1 -- a comment\n\nfrom x\n")},
		"c/d.sql":     {Data: []byte("-- Columns.\nx.a,\n\\ir e.inc.sql\n")},
		"c/e.inc.sql": {Data: []byte("x.b\n")},
		"bad.sql":     {Data: []byte("\\ir nowhere.sql\n")},
	}
	if got, want := Read(files, "a/b.sql"), "select\nx.a,\nx.b\n\t, 1\nfrom x\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a part that does not exist is read")
		}
	}()
	Read(files, "bad.sql")
}

// TestForSchema leaves strings and comments alone.
func TestForSchema(t *testing.T) {
	const text = "select courier.f('courier.retention') -- courier.x\nfrom courier.t"
	if got := ForSchema(text, Schema); got != text {
		t.Errorf("%q", got)
	}
	if got, want := ForSchema(text, `a"b`), `select "a""b".f('courier.retention') -- courier.x`+"\n"+`from "a""b".t`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
