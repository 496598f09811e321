package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

func (w writer) site(t testing.TB) *site {
	t.Helper()
	s := newSite(t)
	content := medium()
	s.write(t, map[string]string{
		"A/f": content, "A/f.gz": gzipped(content), "A/f.zst": zstandard(content),
		"W/in.zip": archiveOf(map[string]string{"A/1": "1", "A/2": content}), "W/in.tar": tarOf(map[string]string{"A/1": "1", "A/2": content}),
	})
	for name, part := range splitOf("f", content, 200<<10) {
		s.write(t, map[string]string{"A" + name[1:]: part})
	}
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

// A target that can't be written to is named in the error, and the step can be
// repeated when it can.
func TestReadOnly(t *testing.T) {
	for _, w := range append(writers(), writer{"mkdir", "file.mkdir", m{"path": "B/g"}, 0}) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.site(t)
			for dir := s.Dir; dir != filepath.Dir(os.TempDir()) && dir != os.TempDir(); dir = filepath.Dir(dir) {
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for dir, mode := range map[string]os.FileMode{s.A: 0o777, s.Work: 0o777, s.B: 0o555} {
				if err := os.Chmod(dir, mode); err != nil {
					t.Fatal(err)
				}
			}
			w.fails(t, s, "permission denied", crash{Nobody: true})
			if err := os.Chmod(s.B, 0o755); err != nil {
				t.Fatal(err)
			}
			s.run(t, w.key, w.cfg)
		})
	}
}
