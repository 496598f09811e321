package file_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

type m = map[string]any

// A site is what a step works on: a workspace and two allowed directories.
type site struct {
	Dir      string // holds the three
	Work     string
	A, B     string
	Attempt  int
	progress func(courier.Progress)
}

func newSite(t testing.TB) *site {
	t.Helper()
	dir := t.TempDir()
	s := &site{Dir: dir, Work: filepath.Join(dir, "work"), A: filepath.Join(dir, "a"), B: filepath.Join(dir, "b")}
	for _, d := range []string{s.Work, s.A, s.B} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// job is the context of the next attempt of step 3.
func (s *site) job() *courier.Context {
	s.Attempt++
	return courier.NewContext(courier.ContextConfig{
		Execution: "0198c2f0-0000-7000-8000-000000000001", Step: 3, Attempt: s.Attempt,
		Workspace: s.Work, Roots: []string{s.A, s.B}, OnProgress: s.progress,
	})
}

// path expands A/, B/ and W/ at the beginning of a name.
func (s *site) path(name string) string {
	for short, dir := range map[string]string{"A": s.A, "B": s.B, "W": s.Work} {
		if name == short {
			return dir
		}
		if rest, ok := strings.CutPrefix(name, short+"/"); ok {
			return dir + "/" + rest
		}
	}
	return name
}

// config expands the paths in a configuration.
func (s *site) config(cfg m) []byte {
	out := m{}
	for k, v := range cfg {
		switch v := v.(type) {
		case string:
			out[k] = s.path(v)
		case []string:
			list := slices.Clone(v)
			for i := range list {
				list[i] = s.path(list[i])
			}
			out[k] = list
		case []any: // decoded from JSON
			list := slices.Clone(v)
			for i := range list {
				list[i] = s.path(list[i].(string))
			}
			out[k] = list
		default:
			out[k] = v
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		panic(err)
	}
	return b
}

// write makes files: "A/x": "content".
func (s *site) write(t testing.TB, files map[string]string) {
	t.Helper()
	for name, content := range files {
		p := s.path(name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *site) read(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// snapshot describes all files, but for the journal, and all directories
// outside the workspace.
func (s *site) snapshot(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(s.Dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(s.Dir, p)
		if strings.HasSuffix(d.Name(), "-journal.courier-tmp") || d.IsDir() && (rel == "work" || strings.HasPrefix(rel, "work/")) {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v", rel, info.Mode())
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			fmt.Fprintf(&b, " -> %s", to)
		case info.Mode().IsRegular():
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			if len(content) > 40 {
				content = fmt.Appendf(nil, "%d bytes, %x", len(content), sha256.Sum256(content))
			}
			fmt.Fprintf(&b, " %q", content)
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// registry has all steps with the given limits.
func registry(limits file.Limits) *courier.Registry {
	var r courier.Registry
	file.Register(&r, &file.Options{Limits: limits})
	return &r
}

// execute runs one attempt of a step.
func (s *site) execute(ctx context.Context, r *courier.Registry, key string, cfg m) (m, error) {
	job := s.job()
	defer job.Close()
	return s.in(ctx, job, r, key, cfg)
}

func (s *site) in(ctx context.Context, job *courier.Context, r *courier.Registry, key string, cfg m) (m, error) {
	typ, ok := r.Lookup(key)
	if !ok {
		panic("no step type " + key)
	}
	raw, err := typ.Execute(ctx, job, s.config(cfg))
	if err != nil {
		return nil, err
	}
	var out m
	return out, json.Unmarshal([]byte(strings.ReplaceAll(string(raw), s.Dir+"/", "/")), &out)
}

// run is execute with a step that must succeed.
func (s *site) run(t testing.TB, key string, cfg m) m {
	t.Helper()
	out, err := s.execute(t.Context(), registry(file.Limits{}), key, cfg)
	if err != nil {
		t.Fatalf("%s %v: %v", key, cfg, err)
	}
	return out
}

// refuse is execute with a step that must fail, with words in its error and
// with nothing changed. Permanent errors begin the words with "!".
func (s *site) refuse(t testing.TB, key string, cfg m, words ...string) {
	t.Helper()
	s.refuseWith(t, registry(file.Limits{}), key, cfg, words...)
}

func (s *site) refuseWith(t testing.TB, r *courier.Registry, key string, cfg m, words ...string) {
	t.Helper()
	before := s.snapshot(t)
	_, err := s.execute(t.Context(), r, key, cfg)
	if err == nil {
		t.Errorf("%s %v: no error", key, cfg)
		return
	}
	for _, w := range words {
		w, permanent := strings.CutPrefix(w, "!")
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s %v: error %q lacks %q", key, cfg, err, w)
		}
		if permanent && !courier.IsPermanent(err) {
			t.Errorf("%s %v: error %q is not permanent", key, cfg, err)
		}
		if w == "damaged" || strings.HasPrefix(w, "damaged, incomplete") || w == "not a zip archive" {
			if c := courier.ClassOf(err); c != courier.ReasonIntegrity {
				t.Errorf("%s %v: error %q is of the class %q", key, cfg, err, c)
			}
		}
	}
	if after := s.snapshot(t); after != before {
		t.Errorf("%s %v failed (%v) but changed\n%sto\n%s", key, cfg, err, before, after)
	}
}

// equal compares one output.
func equal(t testing.TB, out m, name string, want any) {
	t.Helper()
	got, _ := json.Marshal(out[name])
	w, _ := json.Marshal(want)
	if string(got) != string(w) {
		t.Errorf("output %s is %s, want %s", name, got, w)
	}
}

// TestRegister checks what all types have in common; [ExampleRegister] has their keys.
func TestRegister(t *testing.T) {
	r := registry(file.Limits{})
	for _, key := range r.Keys() {
		typ, _ := r.Lookup(key)
		moves := !slices.Contains([]string{"file.list", "file.delete", "file.mkdir", "file.wait"}, key)
		if (moves || key == "file.wait") != (typ.Timeout() == 0) || moves != (typ.Stall() == time.Minute) {
			t.Errorf("%s: timeout %v, stall %v", key, typ.Timeout(), typ.Stall())
		}
		if !typ.Validates() || typ.Doc() == "" {
			t.Errorf("%s: validates %v, doc %q", key, typ.Validates(), typ.Doc())
		}
	}
	for key, cfg := range map[string]m{
		"file.copy":   {"source_path": "a", "destination_path": "b", "if_exists": "resume"},
		"file.move":   {"source_path": "a", "destination_path": "b", "mode": "4755"},
		"file.rename": {"source_path": "a"},
		"file.delete": {"path": ""},
		"file.unzip":  {"archive_path": "a", "if_exists": "skip"},
		"file.tar":    {"source_path": "a", "format": "tar.bz2"},
		"file.untar":  {"archive_path": "a", "format": "zip"},
		"file.hash":   {"source_path": "a", "algorithm": "crc32"},
		"file.split":  {"source_path": "a", "part_bytes": json.Number("1"), "manifest_format": "xml"},
		"file.wait":   {"path": "a", "on_timeout": "stop"},
	} {
		typ, _ := r.Lookup(key)
		if p := typ.Check(cfg, true); len(p) != 1 {
			t.Errorf("%s %v: problems %v, want one", key, cfg, p)
		}
	}
}

// A step without a workspace works in the current directory, for unit tests.
func TestZeroContext(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.txt", []byte("text"), 0o640); err != nil {
		t.Fatal(err)
	}
	var job courier.Context
	defer job.Close()
	if _, err := (file.Copy{}).Execute(t.Context(), &job, file.CopyConfig{SourcePath: "in.txt", DestinationPath: "sub/"}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the journal is in the context
		out, err := (file.Move{}).Execute(t.Context(), &job, file.MoveConfig{SourcePath: "in.txt", DestinationPath: "moved.txt"})
		if err != nil || out.MovedFile != "moved.txt" {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	abs, err := filepath.Abs("there.txt")
	if err != nil {
		t.Fatal(err)
	}
	var other courier.Context
	defer other.Close()
	if _, err := (file.Move{}).Execute(t.Context(), &other, file.MoveConfig{SourcePath: "moved.txt", DestinationPath: abs}); err != nil {
		t.Fatal(err)
	}
	zip, err := (file.Zip{}).Execute(t.Context(), &other, file.ZipConfig{SourcePaths: []courier.Pattern{"there.txt", "sub"}})
	if err != nil || zip.ArchivePath != "archive.zip" || zip.EntryCount != 2 {
		t.Fatalf("%+v, %v", zip, err)
	}
	var third courier.Context
	defer third.Close()
	unzip, err := (file.Unzip{}).Execute(t.Context(), &third, file.UnzipConfig{ArchivePath: "archive.zip"})
	if want := []string{"unzipped/sub/in.txt", "unzipped/there.txt"}; err != nil || !slices.Equal(unzip.ExtractedFiles, want) {
		t.Fatalf("%+v, %v", unzip, err)
	}
	list, err := (file.List{}).Execute(t.Context(), &third, file.ListConfig{Path: ".", Recursive: true})
	if err != nil || list.FileCount != 5 {
		t.Fatalf("%+v, %v", list, err)
	}
	var fourth courier.Context
	defer fourth.Close()
	del, err := (file.Delete{}).Execute(t.Context(), &fourth, file.DeleteConfig{Path: "**/*.txt"})
	if err != nil || del.DeletedCount != 4 {
		t.Fatalf("%+v, %v", del, err)
	}
}
