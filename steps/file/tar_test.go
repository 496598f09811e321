package file_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/steps/file"
)

// What file.tar packs, tar unpacks and file.untar too.
func TestTar(t *testing.T) {
	for _, format := range []string{"tar", "tar.gz", "tar.zst"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			var first string
			for i := range 2 {
				s := newSite(t)
				files := packable()
				files["A/in/"+strings.Repeat("long/", 40)+strings.Repeat("n", 150)] = "long name"
				s.write(t, files)
				if err := os.Mkdir(s.path("A/in/none"), 0o755); err != nil {
					t.Fatal(err)
				}
				at := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
				os.Chtimes(s.path("A/in/none"), at, at)
				if i == 1 {
					os.Chmod(s.path("A/in/1"), 0o700)
				}
				out := s.run(t, "file.tar", m{"source_path": "A/in", "output_path": "B/", "format": format})
				equal(t, out, "archive_path", "/b/in."+format)
				equal(t, out, "entry_count", 8)
				archive := "B/in." + format
				if i == 0 {
					first = s.read(t, archive)
				} else if s.read(t, archive) != first {
					t.Error("the same files give other bytes")
				}
				os.Mkdir(s.path("B/gnu"), 0o755)
				must(t, s.B, "tar", "-xf", "in."+format, "-C", "gnu")
				s.same(t, files, "A", "B/gnu")
				for _, guess := range []string{"", format} {
					out = s.run(t, "file.untar", m{"archive_path": archive, "output_directory": "B/back" + guess, "format": guess})
					equal(t, out, "file_count", 7)
					s.same(t, files, "A", "B/back"+guess)
				}
				for _, dir := range []string{"B/gnu", "B/back"} {
					info, err := os.Stat(s.path(dir + "/in/1"))
					if want := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC); err != nil || !info.ModTime().Equal(want) {
						t.Errorf("%s: modified %v, want %v", dir, info.ModTime(), want)
					}
					if info, err := os.Stat(s.path(dir + "/in/none")); err != nil || !info.IsDir() {
						t.Errorf("%s: the empty directory: %v, %v", dir, info, err)
					}
				}
			}
		})
	}
}

// What tar packs in each of its formats, file.untar unpacks.
func TestUntarGNU(t *testing.T) {
	for _, format := range []string{"gnu", "oldgnu", "pax", "ustar", "v7"} {
		for _, packed := range []string{"-c", "-cz", "-c --zstd"} {
			for _, dot := range []string{"in", "./in", "."} {
				t.Run(format+packed+dot, func(t *testing.T) {
					s := newSite(t)
					files := map[string]string{"A/in/1": "one", "A/in/2": medium(), "A/in/empty": "", "A/in/x/äöü ß 日本": strings.Repeat("long ", 1000)}
					if format != "ustar" && format != "v7" {
						files["A/in/"+strings.Repeat("long/", 40)+strings.Repeat("n", 150)] = "long name"
					}
					s.write(t, files)
					args := append(strings.Fields(packed), "-f", "../b/x", "--format="+format, dot)
					must(t, s.A, "tar", args...)
					out := s.run(t, "file.untar", m{"archive_path": "B/x", "output_directory": "B/back"})
					equal(t, out, "file_count", len(files))
					s.same(t, files, "A", "B/back")
				})
			}
		}
	}
}

func TestUntarRefusesGNU(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "one", "A/2": "two", "A/bz/1": "1"})
	os.Symlink("1", s.path("A/link"))
	os.Link(s.path("A/1"), s.path("A/hard"))
	hole, err := os.Create(s.path("A/hole"))
	if err != nil {
		t.Fatal(err)
	}
	hole.WriteAt([]byte("x"), 1<<20)
	hole.Close()
	must(t, s.A, "mkfifo", "pipe")
	for _, c := range []struct {
		args  []string
		words []string
	}{
		{[]string{"1", "link"}, []string{`entry "link"`, "!is a symbolic link"}},
		{[]string{"1", "hard"}, []string{`entry "hard"`, "!is a hard link"}},
		{[]string{"1", "pipe"}, []string{"!is a pipe"}},
		{[]string{"-S", "1", "hole"}, []string{`entry "hole"`, "!is a sparse file"}},
		{[]string{"-S", "--format=pax", "1", "hole"}, []string{"!is a sparse file"}},
		{[]string{"-S", "--format=pax", "--sparse-version=0.1", "1", "hole"}, []string{"!is a sparse file"}},
		{[]string{"1", "--absolute-names", s.path("A/2")}, []string{"!is an absolute path"}},
		{[]string{"1", "--absolute-names", "../a/2"}, []string{`!has the element ".."`}},
		{[]string{"1", "2", "1", "--hard-dereference"}, []string{"!is there twice"}},
		{[]string{"--bzip2", "bz"}, []string{"!in the format of bzip2"}},
		{[]string{"--xz", "bz"}, []string{"!in the format of xz"}},
	} {
		t.Run(fmt.Sprint(c.args), func(t *testing.T) {
			if said, err := command(t, s.A, "tar", append([]string{"-cf", "../b/x.tar"}, c.args...)...); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			s.refuse(t, "file.untar", m{"archive_path": "B/x.tar", "output_directory": "B/back"}, c.words...)
		})
	}
}

func TestUntarLimits(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/in/a": strings.Repeat("a", 100), "A/in/b": strings.Repeat("b", 50), "A/in/d/e": ""})
	must(t, s.A, "tar", "-czf", "../b/x.tgz", "in")
	cfg := m{"archive_path": "B/x.tgz", "output_directory": "A/d"}
	s.refuseWith(t, registry(file.Limits{MaxFiles: 4}), "file.untar", cfg, "!comes after 4 others")
	s.refuseWith(t, registry(file.Limits{MaxEntryBytes: 99}), "file.untar", cfg, `entry "in/a"`, "!unpacks to 100 bytes; 99 are allowed")
	s.refuseWith(t, registry(file.Limits{MaxBytes: 149}), "file.untar", cfg, "!more than 149 bytes")
	if _, err := s.execute(t.Context(), registry(file.Limits{MaxFiles: 5, MaxEntryBytes: 100, MaxBytes: 150}), "file.untar", cfg); err != nil {
		t.Error(err)
	}
}
