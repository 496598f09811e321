package depot

import (
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
)

// plainName is what names on the disk may consist of.
var plainName = regexp.MustCompile(`^files/[a-z0-9-]{1,64}/((in|out)/)?[0-9a-f]{32}-[a-z0-9._-]{0,60}$`)

// FuzzKey: whatever the text is, a key has a plain file name, takes itself apart and is
// found by each of its prefixes; anything else is refused with an error that can be shown.
func FuzzKey(f *testing.F) {
	for _, key := range []string{
		"x/in/a", "x/out/a/b", "x/removed", "x/in/../a", "x/in/a\x00", "x/in/CON", "x/in/\u202efdp.exe", "X/in/a", "x/out/" + strings.Repeat("a/", 31) + "b",
		"x/in/" + strings.Repeat("a", 255), "x/in/" + strings.Repeat("a", 4096), "x/out/é/ü", "x/out/a//b", "", "/", "x", "x/in", "x/removed/", "x/in/a.", "x/in/ab ",
	} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if CheckPrefix(key) == nil && slices.Contains(strings.Split(key, "/"), "..") {
			t.Errorf("%q is a prefix", key)
		}
		err := CheckKey(key)
		if err != nil {
			bad := strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) && r != ' ' })
			if !errors.Is(err, courier.ErrInvalid) || bad >= 0 || len(err.Error()) > 1200 {
				t.Errorf("the error about %q is %q", key, err)
			}
			return
		}
		name := fileName(key)
		if !plainName.MatchString(name) || strings.HasSuffix(name, ".") || path.Clean(name) != name {
			t.Errorf("%q lies in %q", key, name)
		}
		x, short := SplitKey(key)
		if key != InputKey(x, short) && key != ResultKey(x, short) && (key != RemovedKey(x) || short != "") {
			t.Errorf("%q is taken apart to %q and %q", key, x, short)
		}
		prefixes := []string{"", key, string(x), string(x) + "/"}
		for i := range key {
			if key[i] == '/' {
				prefixes = append(prefixes, key[:i], key[:i+1])
			}
		}
		for _, prefix := range prefixes {
			if err := CheckPrefix(prefix); err != nil || !HasPrefix(key, prefix) {
				t.Errorf("%q is not found by %q: %v", key, prefix, err)
			}
		}
		if HasPrefix(key, key[:len(key)-1]) && key[len(key)-2] != '/' {
			t.Errorf("%q is found by its beginning", key)
		}
	})
}

// FuzzFooter: the description of a file is read as it was written, whatever comes before
// it; anything else is refused.
func FuzzFooter(f *testing.F) {
	f.Add([]byte("content"), "x/in/a", int64(7))
	f.Add([]byte(mark), "x/in/<&>\"", int64(1)<<40)
	f.Add([]byte("ffffffff"+mark), "x/in/a", int64(0))
	f.Add([]byte(`{"size":-1}`+"0000000b"+mark), "x/in/a", int64(0))
	f.Fuzz(func(t *testing.T, before []byte, key string, size int64) {
		if info, n, err := parseFooter(before); err == nil && (n <= tailSize || n > len(before)) {
			t.Errorf("%q has a description of %d bytes: %+v", before, n, info)
		}
		if CheckKey(key) != nil {
			return
		}
		want := Info{Key: key, Size: size, Time: time.Unix(0, size).UTC(), SHA256: strings.Repeat("ab", 32)}
		end, err := footer(want)
		if err != nil {
			return // the year is out of range
		}
		if len(end) > maxFooter {
			t.Errorf("the description of %q has %d bytes", key, len(end))
		}
		got, n, err := parseFooter(append(before, end...))
		if err != nil || got != want || n != len(end) {
			t.Errorf("%+v came back as %+v, %d, %v", want, got, n, err)
		}
	})
}

// FuzzPattern: patterns mean here what they mean in the other families, whose library does
// the comparing.
func FuzzPattern(f *testing.F) {
	for _, pair := range [][2]string{
		{"**", "a/b"}, {"*.csv", "a.csv"}, {"**/*.{csv,txt}", "a/b/c.txt"}, {"a/**/b", "a/b"}, {"[!a]*", "b"}, {"[^a-c]?", "dd"}, {`\*`, "*"}, {"{a,{b,c}}/x", "c/x"},
		{"a**b", "axxb"}, {"{a,b", "a"}, {"[a", "a"}, {"*/**", "a"}, {"**/a/**/b/**", "a/x/b"}, {"{,x}a", "a"}, {"[]a]", "a"}, {"a}", "a}"}, {"{[,]}", ","},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if !utf8.ValidString(pattern) || !utf8.ValidString(name) || len(pattern) > 40 || len(name) > 100 || strings.ContainsAny(pattern+name, "\x00") || name == "" || path.Clean(name) != name || name[0] == '/' || strings.HasPrefix(name, "..") {
			return
		}
		given := courier.Pattern("x/*" + pattern)
		if checkPattern(given) != nil {
			return // it may be stricter
		}
		if err := globmatch.Check(given); err != nil {
			t.Errorf("%q is accepted here alone: %v", pattern, err)
			return
		}
		_, rest := glob.Split(given)
		if got, want := newMatcher(rest).match(name), doublestar.MatchUnvalidated(rest, name); got != want {
			t.Errorf("%q matches %q: %v, want %v", rest, name, got, want)
		}
	})
}

// TestPatterns: good patterns are accepted, and those that nobody can mean are not.
func TestPatterns(t *testing.T) {
	for p, good := range map[courier.Pattern]bool{
		"*.csv": true, "in/**/x?.{csv,txt}": true, "../in/*.csv": true, "in/[ab]*": true, "in/x..y*": true, "in/{a,{b,c}}[!x]*": true, "*": true, "**": true,
		"": false, "in/": false, "in/[a*": false, "in/{a*": false, "in/*/../x": false, "**/..": false, "{..,a}/*": false,
		"*{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}": false,
	} {
		err := checkPattern(p)
		if (err == nil) != good || err != nil && !courier.IsPermanent(err) {
			t.Errorf("checkPattern(%q) = %v", p, err)
		}
	}
	for _, c := range [][3]string{
		{"**", "a", "yes"}, {"**", "a/b/c", "yes"}, {"*", "a/b", ""}, {"**/b", "b", "yes"}, {"**/b", "a/b", "yes"}, {"**/b", "b/a", ""}, {"a/**/c", "a/c", "yes"}, {"a/**/c", "a/b/b/c", "yes"},
		{"*.{csv,txt}", "a.txt", "yes"}, {"*.{csv,txt}", "a.zip", ""}, {"[!a]", "b", "yes"}, {"[!a]", "a", ""}, {`\{a`, "{a", "yes"}, {"**/a/**/b", "a/a/x/b/b", "yes"}, {"**/a/**/b", "a/a/x/b/c", ""},
	} {
		if got := newMatcher(c[0]).match(c[1]); got != (c[2] != "") {
			t.Errorf("%q matches %q: %v", c[0], c[1], got)
		}
	}
}
