package remote

import (
	"context"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connfile"
)

// FuzzSecret checks what the text of a credential stands for.
func FuzzSecret(f *testing.F) {
	for _, s := range []string{"", "secret:acme", "$secret:acme", "$$secret:x", "secret:", "word"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		asked := ""
		job := courier.NewContext(courier.ContextConfig{Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			asked = "secret:" + q.Name
			return "resolved", nil
		}})
		defer job.Close()
		got, err := connfile.Secret(t.Context(), job, "password", text)
		switch {
		case err != nil:
			if !strings.HasPrefix(text, "secret:") {
				t.Errorf("%q: %v", text, err)
			}
		case asked != "":
			if asked != text || got != "resolved" {
				t.Errorf("%q asks for %q and is %q", text, asked, got)
			}
		case got != text && "$"+got != text:
			t.Errorf("%q is %q", text, got)
		}
	})
}

// FuzzPattern checks that a pattern that is accepted is compared in bounded
// time, simple ones as package path does it.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"", "*", "*.csv", "a?c", "{a,b{c,d}}*", "[^a]", `\*`, "a/b", "[", "**", "{,a}{,a}{,a}{,a}b"} {
		f.Add(s, "aaaaaaaaaaaaaaaaaaaaaaaa.csv")
		f.Add(s+"/**/*.csv", "a/b/c.csv")
	}
	simple := regexp.MustCompile(`^[a-z0-9?]*\*?[a-z0-9?]+$`)
	f.Fuzz(func(t *testing.T, pattern, name string) {
		q := Search{Pattern: pattern, Unsafe: UnsafeSkip}
		if err := q.Check(); err != nil {
			if strings.ContainsFunc(err.Error(), unicode.IsControl) || len(err.Error()) > 1500 {
				t.Errorf("the error is %q", err)
			}
			return
		}
		if len(pattern) > 40 || len(name) > 255 {
			return
		}
		start := time.Now()
		got := q.Matches(name)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q takes %v for %q", pattern, took, name)
		}
		if dir := path.Dir(name); got && pattern != "" && fs.ValidPath(name) && dir != "." && !q.Descends(dir) {
			t.Errorf("%q matches %q, but is not looked for in %q", pattern, name, dir)
		}
		if want, err := path.Match(pattern, name); err == nil && got != want && simple.MatchString(pattern) && utf8.ValidString(name) {
			t.Errorf("%q matches %q: %t, want %t", pattern, name, got, want)
		}
	})
}
