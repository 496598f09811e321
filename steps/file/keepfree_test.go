package file_test

import (
	"os"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/transfer"
	"github.com/courierhq/courier/steps/file"
)

// TestKeepFree writes large files to a disk that has less left than is to stay
// free: the steps that write without knowing how much it will be notice it on the
// way, name the place and the option, and leave nothing behind. Small files are
// written all the same.
func TestKeepFree(t *testing.T) {
	big := hexText(20 << 20) // more than is written between two looks
	for i, c := range []struct {
		name string
		pack m // makes the source
		key  string
		cfg  m
	}{
		{"copy", nil, "file.copy", m{"source_path": "A/f", "destination_path": "B/out/g"}},
		{"gunzip", m{"file.gzip": m{"source_path": "A/f", "output_path": "A/f.gz"}}, "file.gunzip", m{"source_path": "A/f.gz", "output_path": "B/out/g"}},
		{"unzstd", m{"file.zstd": m{"source_path": "A/f", "output_path": "A/f.zst"}}, "file.unzstd", m{"source_path": "A/f.zst", "output_path": "B/out/g"}},
		{"unzip", m{"file.zip": m{"source_path": "A/f", "output_path": "A/f.zip"}}, "file.unzip", m{"archive_path": "A/f.zip", "output_directory": "B/out"}},
		{"untar", m{"file.tar": m{"source_path": "A/f", "output_path": "A/f.tgz", "format": "tar.gz"}}, "file.untar", m{"archive_path": "A/f.tgz", "output_directory": "B/out"}},
		{"split", nil, "file.split", m{"source_path": "A/f", "output_directory": "B/out", "part_bytes": 6 << 20}},
		{"join", m{"file.split": m{"source_path": "A/f", "output_directory": "A/parts", "part_bytes": 6 << 20}}, "file.join", m{"manifest_path": "A/parts/f.manifest.json", "output_path": "B/out/g"}},
	} {
		if raced.On && i%3 != 0 {
			continue // the run without the race detector has them
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.write(t, map[string]string{"A/f": big})
			for key, cfg := range c.pack {
				s.run(t, key, cfg.(m))
			}
			root, err := os.OpenRoot(s.B)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			free, ok := transfer.Room(root, ".")
			if !ok {
				t.Fatal("the free space is not known")
			}
			before := s.snapshot(t)
			r := registry(file.Limits{KeepFree: int64(free) + 1<<40})
			_, err = s.execute(t.Context(), r, c.key, c.cfg)
			if err == nil || courier.IsPermanent(err) || !strings.Contains(err.Error(), "KeepFree in file.Options") || !strings.Contains(err.Error(), "make room") || !strings.Contains(err.Error(), "bytes left") {
				t.Fatalf("%v", err)
			}
			for line := range strings.Lines(s.snapshot(t)) {
				made := strings.HasPrefix(line, "b/out ") || c.name == "split" && strings.HasPrefix(line, "b/out/f.00") // whole parts stay
				if !made && !strings.Contains(before, line) {
					t.Errorf("it has left %s", line)
				}
			}
			r = registry(file.Limits{KeepFree: -1})
			if _, err := s.execute(t.Context(), r, c.key, c.cfg); err != nil {
				t.Errorf("nothing is kept free: %v", err)
			}
		})
	}
}
