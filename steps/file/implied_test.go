package file_test

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/hostile"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

// Directories that are only part of names count: an archive of 10,000 entries,
// each 100 directories deep, is refused within a second and 64 MiB.
func TestImpliedDirectories(t *testing.T) {
	if raced.On {
		return // it measures time and memory, which the run without the race detector has
	}
	const room = 64 << 20
	for _, tree := range hostile.Trees(10_000) {
		most := time.Second
		if tree.Name == "one chain" {
			most *= 5 // 9,900 of these are in order, and are looked at
		}
		for key, archive := range map[string][]byte{"file.unzip": tree.Zip(), "file.untar": tree.Tar()} {
			t.Run(key+", "+tree.Name, func(t *testing.T) {
				s := newSite(t)
				if err := os.WriteFile(s.path("B/x"), archive, 0o600); err != nil {
					t.Fatal(err)
				}
				before := s.snapshot(t)
				var a, b runtime.MemStats
				var took time.Duration
				var err error
				for range 3 { // the machine may be busy with something else
					runtime.ReadMemStats(&a)
					begin := time.Now()
					_, err = s.execute(t.Context(), registry(file.Limits{MaxRatio: 10_000}), key, m{"archive_path": "B/x", "output_directory": "A/d"})
					took = time.Since(begin)
					runtime.ReadMemStats(&b)
					if took <= most || took > 3*most {
						break
					}
				}
				t.Logf("%d bytes of archive, %v, %d KiB: %v", len(archive), took, (b.TotalAlloc-a.TotalAlloc)>>10, err)
				if err == nil || !strings.Contains(err.Error(), "MaxFiles in file.Options") && !strings.Contains(err.Error(), "MaxPathBytes in file.Options") {
					t.Errorf("the error is %v", err)
				}
				if took > most {
					t.Errorf("it took %v", took)
				}
				if used := b.TotalAlloc - a.TotalAlloc; used > room {
					t.Errorf("%d bytes allocated", used)
				}
				if after := s.snapshot(t); after != before {
					t.Errorf("left\n%.500s", after)
				}
			})
		}
	}
}

// What is packed can be unpacked with the same limits, and the directories on
// the way count in both directions.
func TestDirectoriesCount(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/in/a/b/c/one": "1", "A/in/a/b/two": "2"})
	for _, pack := range []string{"zip", "tar"} {
		in, out := m{"source_path": "A/in", "output_path": "B/x." + pack}, m{"archive_path": "B/x." + pack, "output_directory": "A/" + pack}
		unpack := "file.un" + pack
		s.refuseWith(t, registry(file.Limits{MaxFiles: 5}), "file."+pack, in, "!more than 5 files and directories", "MaxFiles in file.Options")
		s.refuseWith(t, registry(file.Limits{MaxPathBytes: 40}), "file."+pack, in, "!longer than 40 bytes together", "MaxPathBytes in file.Options")
		exact := registry(file.Limits{MaxFiles: 6, MaxPathBytes: 200})
		if _, err := s.execute(t.Context(), exact, "file."+pack, in); err != nil {
			t.Fatal(err)
		}
		s.refuseWith(t, registry(file.Limits{MaxFiles: 5}), unpack, out, "!more than 5 files and directories", "MaxFiles in file.Options")
		s.refuseWith(t, registry(file.Limits{MaxPathBytes: 40}), unpack, out, "!longer than 40 bytes together", "MaxPathBytes in file.Options")
		if _, err := s.execute(t.Context(), exact, unpack, out); err != nil {
			t.Fatal(err)
		}
		if got := s.read(t, "A/"+pack+"/in/a/b/c/one"); got != "1" {
			t.Errorf("%s: it holds %q", unpack, got)
		}
	}
}

// The paths of what a pattern finds, or a deletion takes, are limited too.
func TestPathBytes(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.write(t, map[string]string{"A/in/" + strings.Repeat("d/", 10) + name: name})
	}
	for key, cfg := range map[string]m{
		"file.list":   {"path": "A/in", "recursive": true},
		"file.copy":   {"source_path": "A/in/**", "destination_path": "B/"},
		"file.move":   {"source_path": "A/in/**", "destination_path": "B/"},
		"file.hash":   {"source_path": "A/in"},
		"file.wait":   {"path": "A/in/**", "timeout_seconds": 1},
		"file.delete": {"path": "A/in", "recursive": true},
	} {
		s.refuseWith(t, registry(file.Limits{MaxPathBytes: 30}), key, cfg, "!more than 30 bytes", "MaxPathBytes in file.Options")
	}
}
