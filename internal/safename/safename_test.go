package safename

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPortable(t *testing.T) {
	for name, ok := range map[string]bool{
		"a.csv": true, "console": true, "COM10": true, "2026-01-01T10:00:00.csv": true, "👨\u200d👩\u200d👧.png": true, "a\u200cb": true, "é:x": true,
		"CON": false, "nul.txt": false, "lpt1": false, "C:x": false, "c:": false, "a\u200b.csv": false, "\ufeffa": false, "a\u2060b": false, "..": false, "a/b": false, "": false,
	} {
		if err := Portable(name); (err == nil) != ok {
			t.Errorf("Portable(%q) = %v, want ok %t", name, err, ok)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct{ unix, windows bool }{
		"invoice.csv":                   {true, true},
		".hidden":                       {true, true},
		"...three":                      {true, true},
		"..a":                           {true, true},
		"-rf":                           {true, true},
		" leading":                      {true, true},
		"naïve größe 見積.csv":            {true, true},
		"family 👨\u200d👩\u200d👧.png":    {true, true},
		"${context:params.x}":           {true, false},
		"secret:db":                     {true, false},
		"2024-01-01T10:00:00.csv":       {true, false},
		"*":                             {true, false},
		"a?b":                           {true, false},
		`quote".txt`:                    {true, false},
		"file.txt:stream":               {true, false},
		"con":                           {true, false},
		"NUL.txt":                       {true, false},
		"COM1":                          {true, false},
		"com¹.log":                      {true, false},
		"CONIN$":                        {true, false},
		"COM10":                         {true, true},
		"console":                       {true, true},
		strings.Repeat("x", 255):        {true, true},
		strings.Repeat("x", 256):        {},
		strings.Repeat("é", 128):        {},
		"":                              {},
		".":                             {},
		"..":                            {},
		"/":                             {},
		"a/b":                           {},
		"../x":                          {},
		"x/..":                          {},
		`..\..\win.ini`:                 {},
		`C:\x`:                          {},
		"a\x00b":                        {},
		"a\nb":                          {},
		"a\rDELE x":                     {},
		"\x1b[2J":                       {},
		"tab\there":                     {},
		"del\x7f":                       {},
		"c1\u0085":                      {},
		"trailing.":                     {},
		"trailing ":                     {},
		"a..":                           {},
		"exe\u202Efdp.exe":              {},
		"\u2066isolate":                 {},
		"line\u2028separator":           {},
		"\u200Emark":                    {},
		"latin1 \xe9":                   {},
		"\xff\xfe":                      {},
		"overlong \xc0\xaf":             {},
		"surrogate \xed\xa0\x80":        {},
		"replaced \uFFFD":               {},
		strings.Repeat("../", 40) + "x": {},
	}
	for name, want := range tests {
		if err := check(name, false); (err == nil) != want.unix {
			t.Errorf("check(%q) = %v, want ok %v", name, err, want.unix)
		}
		if err := check(name, true); (err == nil) != want.windows {
			t.Errorf("check(%q) on Windows = %v, want ok %v", name, err, want.windows)
		}
	}
}

func TestQuote(t *testing.T) {
	tests := map[string]string{
		"plain":       `"plain"`,
		"größe":       `"größe"`,
		"a\nb\x1b[2J": `"a\nb\x1b[2J"`,
		"\xff":        `"\xff"`,
		"a\u202Eb":    `"a\u202eb"`,
	}
	for s, want := range tests {
		if got := Quote(s); got != want {
			t.Errorf("Quote(%q) = %s, want %s", s, got, want)
		}
	}
	long := Quote(strings.Repeat("é", 200))
	if len(long) > 210 || !strings.HasSuffix(long, `é"...`) {
		t.Errorf("Quote of 400 bytes = %s", long)
	}
}

// FuzzCheck checks that what Check accepts is one file in its directory, under
// exactly that name, and that Quote never lets through what could act on a
// terminal.
func FuzzCheck(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", "\xff", "a\x00", "x ", "é"} {
		f.Add(s)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		for _, r := range Quote(name) {
			if r < ' ' || r == 0x7f || r == utf8.RuneError {
				t.Fatalf("Quote(%q) contains %q", name, r)
			}
		}
		if Check(name) != nil {
			return
		}
		if !filepath.IsLocal(name) || filepath.Base(name) != name {
			t.Fatalf("%q was accepted but is no single name", name)
		}
		sub, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(sub+string(filepath.Separator)+name, nil, 0o600); err != nil {
			t.Fatalf("%q was accepted but can't be a file: %v", name, err)
		}
		entries, err := os.ReadDir(sub)
		if err != nil || len(entries) != 1 || entries[0].Name() != name {
			t.Fatalf("%q became %v, %v", name, fmt.Sprint(entries), err)
		}
	})
}
