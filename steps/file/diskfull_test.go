package file_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

// A writer is a step that writes, with the size of file at which it must fail.
type writer struct {
	name, key string
	cfg       m
	limit     uint64
}

// writers are all steps that write, into B.
func writers() []writer {
	return []writer{
		{"copy", "file.copy", m{"source_path": "A/f", "destination_path": "B/g"}, 100 << 10},
		{"move", "file.move", m{"source_path": "A/f", "destination_path": "B/g"}, 100 << 10},
		{"zip", "file.zip", m{"source_path": "A/f", "output_path": "B/g"}, 100 << 10},
		{"zip with a password", "file.zip", m{"source_path": "A/f", "output_path": "B/g", "password": password}, 100 << 10},
		{"unzip", "file.unzip", m{"archive_path": "in.zip", "output_directory": "B/g"}, 100 << 10},
		{"tar", "file.tar", m{"source_path": "A/f", "output_path": "B/g"}, 100 << 10},
		{"tar.gz", "file.tar", m{"source_path": "A/f", "output_path": "B/g", "format": "tar.gz"}, 100 << 10},
		{"tar.zst", "file.tar", m{"source_path": "A/f", "output_path": "B/g", "format": "tar.zst"}, 100 << 10},
		{"untar", "file.untar", m{"archive_path": "in.tar", "output_directory": "B/g"}, 100 << 10},
		{"gzip", "file.gzip", m{"source_path": "A/f", "output_path": "B/g"}, 100 << 10},
		{"gunzip", "file.gunzip", m{"source_path": "A/f.gz", "output_path": "B/g"}, 100 << 10},
		{"zstd", "file.zstd", m{"source_path": "A/f", "output_path": "B/g"}, 100 << 10},
		{"unzstd", "file.unzstd", m{"source_path": "A/f.zst", "output_path": "B/g"}, 100 << 10},
		{"hash", "file.hash", m{"source_path": "A/f", "output_path": "B/g"}, 50},
		{"split", "file.split", m{"source_path": "A/f", "output_directory": "B/d/e", "part_bytes": 200 << 10}, 100 << 10},
		{"join", "file.join", m{"manifest_path": "A/f.manifest.json", "output_path": "B/g"}, 100 << 10},
	}
}

// inputs are the files that writers read.
var inputs = sync.OnceValue(func() map[string]string {
	content := medium()
	files := map[string]string{
		"A/f": content, "A/f.gz": gzipped(content), "A/f.zst": zstandard(content),
		"W/in.zip": archiveOf(map[string]string{"A/1": "1", "A/2": content}), "W/in.tar": tarOf(map[string]string{"A/1": "1", "A/2": content}),
	}
	for name, part := range splitOf("f", content, 200<<10) {
		files["A"+name[1:]] = part
	}
	return files
})

func (w writer) site(t testing.TB) *site {
	t.Helper()
	s := newSite(t)
	s.write(t, inputs())
	return s
}

// fails is an attempt in another process that must fail with word in its error
// and leave nothing in B.
func (w writer) fails(t *testing.T, s *site, word string, c crash) {
	t.Helper()
	c.Key, c.Cfg = w.key, w.cfg
	err := s.inProcess(t, c)
	if err == nil || !strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), s.B) {
		t.Errorf("error %v lacks %q or the place", err, word)
	}
	filepath.WalkDir(s.B, func(p string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			t.Errorf("%s is left, %v", p, err)
		}
		return nil
	})
}

// A disk that is full in the middle leaves nothing behind, and the step can be
// repeated when there is room.
func TestDiskFull(t *testing.T) {
	for _, w := range writers() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.site(t)
			w.fails(t, s, "file too large", crash{FileSize: w.limit})
			s.run(t, w.key, w.cfg)
		})
	}
}

// readOnly lets nobody but root write to B.
func (s *site) readOnly(t testing.TB) {
	t.Helper()
	for dir, mode := range map[string]os.FileMode{
		filepath.Dir(s.Dir): 0o755, s.Dir: 0o755, // made by TempDir; nothing above is ours
		s.A: 0o777, s.Work: 0o777, s.B: 0o555,
	} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// A target that can't be written to is named in the error, and the step can be
// repeated when it can.
func TestReadOnly(t *testing.T) {
	for _, w := range append(writers(), writer{"mkdir", "file.mkdir", m{"path": "B/g"}, 0}) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.site(t)
			s.readOnly(t)
			w.fails(t, s, "permission denied", crash{Nobody: true})
			if err := os.Chmod(s.B, 0o755); err != nil {
				t.Fatal(err)
			}
			s.run(t, w.key, w.cfg)
		})
	}
}

// What can't be written to or read is found before anything runs.
func TestValidateRights(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "f", "A/hidden": "h"})
	s.readOnly(t)
	if err := os.Chmod(filepath.Join(s.A, "hidden"), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key  string
		cfg  m
		want []string
	}{
		{"file.copy", m{"source_path": "A/f", "destination_path": "B/g"}, []string{"destination_path: ", "can't be written to", "permission denied", "give its user"}},
		{"file.split", m{"source_path": "A/f", "output_directory": "B/d/e", "part_bytes": 1}, []string{"output_directory: ", s.B + `" can't be written to`}},
		{"file.mkdir", m{"path": "B/x"}, []string{"path: ", "can't be written to"}},
		{"file.gzip", m{"source_path": "A/hidden"}, []string{"source_path: ", "can't be read", "permission denied"}},
		{"file.gzip", m{"source_path": "A/f", "output_path": "A/f.gz"}, nil},
	} {
		err := s.inProcess(t, crash{Key: c.key, Cfg: c.cfg, Nobody: true, Validate: true})
		if err == nil {
			err = errNone
		}
		for _, want := range append(c.want, "") {
			if !strings.Contains(err.Error(), want) || (c.want == nil) != (err == errNone) {
				t.Errorf("%s %v: error %v, want %q", c.key, c.cfg, err, want)
			}
		}
	}
}

var errNone = errors.New("no error")

// What there is to know about the paths is told.
func TestValidateReport(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "four"})
	r := registry(file.Limits{})
	for _, c := range []struct {
		key  string
		cfg  m
		want []string
	}{
		{"file.copy", m{"source_path": "A/f", "destination_path": "B/deep/g"}, []string{
			"field=source_path path=" + s.A + "/f below=" + s.A + ` found="a regular file" size=4`,
			"field=destination_path path=" + s.B + "/deep/g below=" + s.B + ` found="nothing yet" writable=true free_bytes=`}},
		{"file.move", m{"source_path": "A/later", "destination_path": "A/f"}, []string{`path=` + s.A + `/later below=` + s.A + ` found="nothing yet"`, `/f below=` + s.A + ` found="a regular file" writable=true`}},
		{"file.unzip", m{"archive_path": "in.zip", "output_directory": "B"}, []string{`field=archive_path path=in.zip below="the workspace"`, `found="a directory" writable=true`}},
		{"file.delete", m{"path": "A/*"}, []string{"field=path path=" + s.A + " below=" + s.A + ` found="a directory"`}},
	} {
		typ, _ := r.Lookup(c.key)
		var log bytes.Buffer
		job := courier.NewContext(courier.ContextConfig{Workspace: s.Work, Roots: []string{s.A, s.B}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err := typ.Validate(t.Context(), job, s.config(c.cfg)); err != nil {
			t.Errorf("%s: %v", c.key, err)
		}
		job.Close()
		for _, want := range c.want {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s tells\n%s\nwithout %q", c.key, log.String(), want)
			}
		}
	}
}
