package sqltext

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// TestCompose has files that nothing else would compose right.
func TestCompose(t *testing.T) {
	vars := map[string]string{"yes": "true", "no": "false", "filter": "and a = b"}
	for text, want := range map[string]string{
		"select 1 -- a comment\n\n":                                               "select 1",
		"a\n\\if :yes\nb\n\\else\nc\n\\endif\nd":                                  "a b d",
		"a\n\\if :no\nb\n\\if :yes\nc\n\\else\nd\n\\endif\n\\else\ne\n\\endif\nf": "a e f",
		"a\n\\if :no\n\\set yes false\n\\endif\n\\if :yes\nb\n\\endif":            "a b",
		"where true :filter and c::text = 'd'":                                    "where true and a = b and c::text = 'd'",
		"\\set no true\n\\if :no\na\n\\endif":                                     "a",
	} {
		if got := strings.Join(composeText(fstest.MapFS{}, "test", text, maps.Clone(vars)), " "); got != want {
			t.Errorf("%q\nbecomes %q\nwant    %q", text, got, want)
		}
	}
	for _, text := range []string{"a :unknown", "\\if :unknown", "\\ir ../nowhere.sql"} {
		func() {
			defer func() { _ = recover() }()
			t.Errorf("%q becomes %q; want it refused", text, composeText(fstest.MapFS{}, "test", text, maps.Clone(vars)))
		}()
	}
}
