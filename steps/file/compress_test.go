package file_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

// What the steps pack, the programs unpack, and the other way round.
func TestCompressPrograms(t *testing.T) {
	for _, c := range []struct{ pack, unpack, program, ext string }{
		{"file.gzip", "file.gunzip", "gzip", ".gz"},
		{"file.zstd", "file.unzstd", "zstd", ".zst"},
	} {
		for name, content := range map[string]string{
			"empty": "", "short": "x", "text": hexText(3 << 20), "random": random(2<<20 + 1), "block": hexText(1 << 20), "two blocks": hexText(2 << 20),
			"mixed": random(1<<20) + hexText(1<<20) + random(100<<10) + hexText(1<<20),
		} {
			if raced.On && (name == "text" || name == "two blocks") {
				continue // "mixed" has as many blocks
			}
			t.Run(c.program+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newSite(t)
				s.write(t, map[string]string{"A/f.txt": content})
				out := s.run(t, c.pack, m{"source_path": "A/f.txt", "output_path": "B/"})
				packed := "B/f.txt" + c.ext
				equal(t, out, "compressed_file", "/b/f.txt"+c.ext)
				equal(t, out, "size", len(s.read(t, packed)))
				if got := must(t, s.B, c.program, "-dc", "f.txt"+c.ext); got != content {
					t.Errorf("%s unpacks %d bytes, not the %d that were packed", c.program, len(got), len(content))
				}
				again := s.run(t, c.pack, m{"source_path": "A/f.txt", "output_path": "B/again"})
				if s.read(t, "B/again") != s.read(t, packed) {
					t.Errorf("the same file gives other bytes: %v", again)
				}
				if name == "random" && len(s.read(t, packed)) > len(content)+len(content)/1000 {
					t.Errorf("what can't be packed becomes %d bytes", len(s.read(t, packed)))
				}
				out = s.run(t, c.unpack, m{"source_path": packed, "output_path": "B/back"})
				equal(t, out, "decompressed_file", "/b/back")
				equal(t, out, "size", len(content))
				if s.read(t, "B/back") != content {
					t.Error("the content is another")
				}
				if info, err := os.Stat(s.path("B/back")); err != nil || !info.ModTime().Equal(time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)) {
					t.Errorf("modified %v, %v", info.ModTime(), err)
				}
				must(t, s.A, c.program, "-q", "f.txt")
				if _, err := os.Stat(s.path("A/f.txt")); err != nil { // gzip removes it
					s.run(t, c.unpack, m{"source_path": "A/f.txt" + c.ext, "output_path": "A/f.txt"})
				}
				out = s.run(t, c.unpack, m{"source_path": "A/f.txt" + c.ext})
				equal(t, out, "decompressed_file", fmt.Sprintf("3/%d/f.txt", s.Attempt))
			})
		}
	}
}

func TestDecompressRefuses(t *testing.T) {
	s := newSite(t)
	gz, zst := gzipped(medium()), zstandard(medium())
	bomb := strings.Repeat("\x00", 8<<20)
	s.write(t, map[string]string{
		"A/f.gz": gz, "A/f.zst": zst, "A/cut.gz": gz[:len(gz)/2], "A/cut.zst": zst[:len(zst)/2], "A/nothing.gz": "", "A/nothing.zst": "",
		"A/sum.gz": string(flip(gz, -6)), "A/sum.zst": string(flip(zst, -2)), "A/bomb.gz": gzipped(bomb), "A/bomb.zst": zstandard(bomb),
		"A/plain.gz": "text", "A/plain.zst": "text", "A/two.gz": gz + "\x00rubbish", "A/two.zst": zst + "rubbish", "A/noname": gz + strings.Repeat("\x00", 1000),
		"B/old": "old", "B/d/x": "",
	})
	for _, c := range []struct {
		ext, key string
	}{{".gz", "file.gunzip"}, {".zst", "file.unzstd"}} {
		for _, name := range []string{"cut", "nothing", "sum", "plain", "two"} {
			s.refuse(t, c.key, m{"source_path": "A/" + name + c.ext, "output_path": "B/old"}, "damaged, incomplete, or not in the", name+c.ext, `nothing was written to "`+s.B+`/old"`)
		}
		s.refuse(t, c.key, m{"source_path": "A/bomb" + c.ext, "output_path": "B/old"}, "!more than 200 times")
		s.refuse(t, c.key, m{"source_path": "A/noname"}, "!give output_path")
		s.refuse(t, c.key, m{"source_path": "A/noname", "output_path": "B/"}, "!give output_path")
		s.refuse(t, c.key, m{"source_path": "A/noname", "output_path": "B"}, "!give output_path")
		s.refuse(t, c.key, m{"source_path": "A/f" + c.ext, "output_path": "A/f" + c.ext}, "!are the same file")
		s.refuse(t, c.key, m{"source_path": "A/none" + c.ext, "output_path": "B/x"}, "no such file")
		s.refuse(t, c.key, m{"source_path": "A", "output_path": "B/x"}, "!is a directory")
		s.refuse(t, c.key, m{"source_path": "/etc/passwd", "output_path": "B/x"}, "!engine.Options.Roots")
		s.refuse(t, c.key, m{"source_path": "A/f" + c.ext, "output_path": "/etc/x"}, "!engine.Options.Roots")
		s.refuseWith(t, registry(file.Limits{MaxEntryBytes: 1000}), c.key, m{"source_path": "A/f" + c.ext, "output_path": "B/x"}, "!more than 1000 bytes", "MaxEntryBytes")
	}
	for _, key := range []string{"file.gzip", "file.zstd"} {
		s.refuse(t, key, m{"source_path": "A/f.gz", "output_path": "A/f.gz"}, "!are the same file")
		s.refuse(t, key, m{"source_path": "A", "output_path": "B/x"}, "!is a directory")
	}
	s.run(t, "file.gunzip", m{"source_path": "A/noname", "output_path": "B/new"})
	if s.read(t, "B/new") != medium() {
		t.Error("the content is another")
	}
}
