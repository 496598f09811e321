package file

import (
	"bytes"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
)

// FuzzJournal reads anything as a journal. A journal that was cut off anywhere
// tells of the same effects up to there.
func FuzzJournal(f *testing.F) {
	for _, s := range []string{"", "\n", "{}\n", "{\"a\":1}\n{\"b\":[2]}\n{\"c\"", "null\r\n1 \n", "{\"a\":\n1}\n", "\x00\n", "[[[[\n"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut int) {
		lines, err := parseJournal(text)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		var whole bytes.Buffer
		for _, line := range lines {
			if !json.Valid(line) || bytes.ContainsRune(line, '\n') {
				t.Errorf("%q is a line", line)
			}
			whole.Write(line)
			whole.WriteByte('\n')
		}
		if again, err := parseJournal(whole.Bytes()); err != nil || !equalLines(again, lines) {
			t.Errorf("%q becomes %q, %v", lines, again, err)
		}
		part, err := parseJournal(text[:max(0, min(cut, len(text)))])
		if err != nil || len(part) > len(lines) || !equalLines(part, lines[:len(part)]) {
			t.Errorf("cut off at %d, %q becomes %q, %v", cut, lines, part, err)
		}
	})
}

func equalLines(a, b []json.RawMessage) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// FuzzRetry gives each step that keeps a journal anything as that of an earlier
// attempt. Nothing panics, and what lies outside the workspace stays as it is.
func FuzzRetry(f *testing.F) {
	for _, s := range []string{
		`{"source":"a.txt","destination":"b.txt","items":[{"source":"a.txt","target":"b.txt","was":{"size":1}}]}` + "\n" + `{"item":0,"state":"copied","side":"../canary","copied":{"size":5}}` + "\n" + `{"item":-1}`,
		`{"source":"a.txt","destination":"b.txt","items":[{"source":"../canary","target":"b.txt"},{"source":"","target":"/x"}]}` + "\n" + `{"item":7,"state":"moved"}` + "\n",
		`{"path":"d","recursive":true,"items":[{"path":"d","directory":true,"contents":["../../canary"],"side":"../../canary"}]}` + "\n" + `{"done":-1}` + "\n" + `{"open":-9}` + "\n",
		`{"path":"d","recursive":true,"items":[{"path":"../canary"},{"path":"d/x"},{"path":".","side":".."}]}` + "\n" + `{"open":99,"done":0}` + "\n",
		`{"archive":"a.txt","output":"b.txt","directory":"b.txt","side":"../canary","files":[{"name":"../canary","size":-1}],"dirs":[".."]}` + "\n" + `{"published":true}` + "\n",
		`{"archive":"a.txt","output":"b.txt","directory":"d","side":"d.courier-tmp","files":[{"name":"x","size":3}]}` + "\n",
		`{"target":"b.txt","copy":{"size":3,"modified":1,"inode":1}}` + "\nnull\n[]\n", "1\n", "",
	} {
		for kind := range uint8(4) {
			f.Add(kind, []byte(s))
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, kind uint8, text []byte) {
		home, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(home)
		work := filepath.Join(home, "work")
		write := func(name, content string) {
			file := filepath.Join(work, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		verb := []string{"copy", "move", "delete", "unzip"}[kind%4]
		write("../canary", "alive")
		write("a.txt", "a")
		write("d/x", "xyz")
		write(".notes/0/"+verb+"-journal"+sideMark, string(text))
		job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: work, Attempt: 2})
		defer job.Close()
		ctx := t.Context()
		switch verb {
		case "copy":
			cfg := CopyConfig{SourcePath: "a.txt", DestinationPath: "b.txt", IfExists: Skip}
			Copy{}.Cleanup(ctx, job, cfg)
			Copy{}.Execute(ctx, job, cfg)
		case "move":
			cfg := MoveConfig{SourcePath: "a.txt", DestinationPath: "b.txt"}
			Move{}.Cleanup(ctx, job, cfg)
			Move{}.Execute(ctx, job, cfg)
		case "delete":
			Delete{}.Execute(ctx, job, DeleteConfig{Path: "d", Recursive: true})
		case "unzip":
			cfg := UnzipConfig{ArchivePath: "a.txt", OutputDirectory: "b.txt"}
			Unzip{}.Cleanup(ctx, job, cfg)
			Unzip{}.Execute(ctx, job, cfg)
		}
		entries, _ := os.ReadDir(home)
		if b, err := os.ReadFile(filepath.Join(home, "canary")); string(b) != "alive" || err != nil || len(entries) != 2 {
			t.Errorf("the canary is %q, %v, among %v", b, err, entries)
		}
	})
}

// TestNoPath calls steps without a path, which no engine does: it decodes the
// configuration first. There is no journal yet then.
func TestNoPath(t *testing.T) {
	for name, call := range map[string]func(*courier.Context) error{
		"copy": func(job *courier.Context) error { _, err := Copy{}.Execute(t.Context(), job, CopyConfig{}); return err },
		"move": func(job *courier.Context) error { _, err := Move{}.Execute(t.Context(), job, MoveConfig{}); return err },
		"delete": func(job *courier.Context) error {
			_, err := Delete{}.Execute(t.Context(), job, DeleteConfig{})
			return err
		},
		"unzip": func(job *courier.Context) error {
			_, err := Unzip{}.Execute(t.Context(), job, UnzipConfig{})
			return err
		},
		"unzip cleanup": func(job *courier.Context) error { return Unzip{}.Cleanup(t.Context(), job, UnzipConfig{}) },
	} {
		job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: t.TempDir()})
		if err := call(job); err == nil && name != "unzip cleanup" {
			t.Errorf("%s: no error without a path", name)
		}
		job.Close()
	}
}

// FuzzPermissions checks that permissions are the octal digits that they are
// written as.
func FuzzPermissions(f *testing.F) {
	for _, s := range []string{"", "0", "640", "0640", "0777", "1000", "0o644", "-1", "8", "+7", "00000000000000000000644", "6_4", "u=rw"} {
		f.Add([]byte(s))
	}
	digits := regexp.MustCompile(`^0*[0-7]{1,3}$`)
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Permissions
		err := p.UnmarshalText(text)
		if (err == nil) != digits.Match(text) {
			t.Fatalf("%q: %v", text, err)
		}
		if err != nil {
			if len(err.Error()) > 1100 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		written, _ := p.MarshalText()
		var back Permissions
		if err := back.UnmarshalText(written); err != nil || back != p || len(written) != 4 {
			t.Errorf("%q is %v, written %q, then %v, %v", text, p, written, back, err)
		}
	})
}

// FuzzPattern checks that a pattern that is accepted is compared in bounded
// time, and simple ones as package path does it.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"*", "a*b?c", "**/x", "{a,b{c,d}}*", "[a-z]*", "[^a]", `\*`, "../*", "/*", "a/../*", "[", "{a", "a*a*a*a*a*a*a*b", "{,a}{,a}{,a}{,a}{,a}b"} {
		f.Add(s, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
		f.Add(s, "a/x")
	}
	simple := regexp.MustCompile(`^[a-z0-9*?/]*$`)
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 40 || len(name) > 255 || globmatch.Check(courier.Pattern(pattern)) != nil {
			return
		}
		start := time.Now()
		_, rest := glob.Split(courier.Pattern(pattern))
		got := doublestar.MatchUnvalidated(rest, name)
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%q takes %v for %q", pattern, took, name)
		}
		if simple.MatchString(rest) && !bytes.Contains([]byte(rest), []byte("**")) && path.Clean("/"+name) == "/"+name {
			if want, err := path.Match(rest, name); err == nil && got != want {
				t.Errorf("%q matches %q: %t, want %t", rest, name, got, want)
			}
		}
	})
}
