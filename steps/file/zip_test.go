package file_test

import (
	"archive/zip"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/steps/file"
)

// entries lists an archive: names, and contents of files.
func entries(t testing.TB, name string) map[string]string {
	t.Helper()
	zr, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	all := make(map[string]string)
	for _, f := range zr.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		all[f.Name] = string(b)
	}
	return all
}

func TestZip(t *testing.T) {
	files := map[string]string{"A/in/b.csv": "b", "A/in/a.csv": "a", "A/in/x/c.csv": "c", "A/in/u.courier-tmp-1": "part", "W/1/1/w.txt": "w", "A/äöü ß.txt": "ü"}
	for _, c := range []struct {
		name string
		cfg  m
		path string
		want string
	}{
		{"a file", m{"source_path": "A/in/a.csv", "output_path": "B/out.zip"}, "B/out.zip", "a.csv=a"},
		{"a file into a directory", m{"source_path": "A/in/a.csv", "output_path": "B"}, "B/a.csv.zip", "a.csv=a"},
		{"a directory", m{"source_path": "A/in", "output_path": "B/new/"}, "B/new/in.zip", "in/a.csv=a in/b.csv=b in/empty/= in/x/c.csv=c"},
		{"a root", m{"source_path": "A", "output_path": "B/"}, "B/a.zip", "a/in/a.csv=a a/in/b.csv=b a/in/empty/= a/in/x/c.csv=c a/äöü ß.txt=ü"},
		{"the workspace", m{"source_path": ".", "output_path": "B/"}, "B/archive.zip", "1/1/w.txt=w"},
		{"a pattern", m{"source_path": "A/in/*.csv", "output_path": "B/"}, "B/archive.zip", "a.csv=a b.csv=b"},
		{"a deep pattern", m{"source_path": "A/**/*.csv"}, "W/3/1/archive.zip", "in/a.csv=a in/b.csv=b in/x/c.csv=c"},
		{"several", m{"source_paths": []string{"A/in/*.csv", "A/in/a.csv", "1/1/w.txt", "A/in/x"}}, "W/3/1/archive.zip", "a.csv=a b.csv=b w.txt=w x/c.csv=c"},
		{"both", m{"source_path": "A/äöü ß.txt", "source_paths": []string{"1/1/w.txt"}}, "W/3/1/archive.zip", "w.txt=w äöü ß.txt=ü"},
		{"default name", m{"source_path": "1/1/w.txt"}, "W/3/1/w.txt.zip", "w.txt=w"},
		{"itself", m{"source_path": "A/in", "output_path": "A/in/a.csv"}, "A/in/a.csv", "in/b.csv=b in/empty/= in/x/c.csv=c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, files)
			if err := os.Mkdir(s.path("A/in/empty"), 0o755); err != nil {
				t.Fatal(err)
			}
			out := s.run(t, "file.zip", c.cfg)
			var got []string
			for name, content := range entries(t, s.path(c.path)) {
				got = append(got, name+"="+content)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("entries %q, want %q", strings.Join(got, " "), c.want)
			}
			want := strings.NewReplacer("A/", "/a/", "B/", "/b/", "W/", "").Replace(c.path)
			equal(t, out, "archive_path", want)
			equal(t, out, "entry_count", len(got))
			if info, err := os.Stat(s.path(c.path)); err != nil || out["size"] != float64(info.Size()) {
				t.Errorf("size %v, file %v, %v", out["size"], info, err)
			}
		})
	}
}

// The same files give the same bytes, wherever and whenever they are packed.
func TestZipReproducible(t *testing.T) {
	var first string
	for i := range 3 {
		s := newSite(t)
		files := map[string]string{"A/in/1": "one", "A/in/2": medium(), "A/in/3": "", "A/in/x/4": strings.Repeat("long ", 1000)}
		s.write(t, files)
		if i == 1 {
			if err := os.Chmod(s.path("A/in/1"), 0o700); err != nil {
				t.Fatal(err)
			}
			time.Local = time.FixedZone("elsewhere", 5400)
			defer func() { time.Local = time.UTC }()
		}
		s.run(t, "file.zip", m{"source_path": "A/in", "output_path": "B/out.zip"})
		got := s.read(t, "B/out.zip")
		if i == 0 {
			first = got
		} else if got != first {
			t.Errorf("run %d gives other bytes", i)
		}
	}
}

func TestZipRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/in/f": "1", "A/x/f": "2", "A/in/F": "3", "A/d/a:b": "4", "A/e/con.txt": "5", "A/in/g": "", "B/out.zip": "old"})
	os.Mkdir(s.path("A/empty"), 0o755)
	os.Symlink("f", s.path("A/x/link"))
	os.Symlink("/etc/passwd", s.path("A/passwd"))
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{"output_path": "B/out.zip"}, []string{"!source_path and source_paths"}},
		{m{"source_path": "A/none", "output_path": "B/out.zip"}, []string{"no such file"}},
		{m{"source_path": "A/none*", "output_path": "B/out.zip"}, []string{"no file to pack"}},
		{m{"source_path": "A/empty", "output_path": "B/out.zip"}, []string{"no file to pack"}},
		{m{"source_paths": []string{"A/in/g", "A/none*"}, "output_path": "B/out.zip"}, []string{"/a/none*", "no file to pack"}},
		{m{"source_path": "B/out.zip", "output_path": "B/out.zip"}, []string{"!are the same file", "no archive was made"}},
		{m{"source_path": "B/*.zip", "output_path": "B/out.zip"}, []string{"!are the same file"}},
		{m{"source_paths": []string{"A/in/f", "A/x/f"}, "output_path": "B/out.zip"}, []string{"!is there twice"}},
		{m{"source_path": "A/in", "output_path": "B/out.zip"}, []string{"!differs only in letter case"}},
		{m{"source_path": "A/d/a:b", "output_path": "B/out.zip"}, []string{"!begins with a drive of Windows"}},
		{m{"source_path": "A/e/*", "output_path": "B/out.zip"}, []string{"!means a device on Windows"}},
		{m{"source_path": "A/x", "output_path": "B/out.zip"}, []string{"!is a symbolic link"}},
		{m{"source_path": "A/passwd", "output_path": "B/out.zip"}, []string{"!leads out"}},
		{m{"source_path": "/etc/passwd", "output_path": "B/out.zip"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/in/g", "output_path": "/tmp/x.zip"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/in/g", "output_path": "A/in/f/x.zip"}, []string{"not a directory"}},
	} {
		s.refuse(t, "file.zip", c.cfg, c.words...)
	}
	s.refuseWith(t, registry(file.Limits{MaxFiles: 2}), "file.zip", m{"source_path": "A/in/*"}, "!more than 2 files")
	equal(t, s.run(t, "file.zip", m{"source_paths": []string{"A/x/link", "A/x/f"}}), "entry_count", 2)
}

// TestColons: files with a time in their names are packed and unpacked, but on Windows.
func TestColons(t *testing.T) {
	if runtime.GOOS == "windows" {
		s := newSite(t)
		s.write(t, map[string]string{"B/x": string(rawZip(raw{name: "10:30.csv", content: "x"}))})
		s.refuse(t, "file.unzip", m{"archive_path": "B/x", "output_directory": "B/back"}, "!has a colon")
		return
	}
	for pack, unpack := range map[string]string{"file.zip": "file.unzip", "file.tar": "file.untar"} {
		s := newSite(t)
		files := map[string]string{"A/in/report-2024-05-06T07:08:09.csv": "1", "A/in/file:stream": "2", "A/in/:": "3", "A/in/1:2/x": "4"}
		s.write(t, files)
		s.run(t, pack, m{"source_path": "A/in", "output_path": "B/x"})
		equal(t, s.run(t, unpack, m{"archive_path": "B/x", "output_directory": "B/back"}), "file_count", len(files))
		s.same(t, files, "A", "B/back")
	}
}

// Other programs take the archives, and file.unzip theirs.
func TestZipWithOthers(t *testing.T) {
	s := newSite(t)
	files := map[string]string{"A/in/1": "one", "A/in/2": medium(), "A/in/3": "", "A/in/ü/4": strings.Repeat("long ", 1000)}
	s.write(t, files)
	s.run(t, "file.zip", m{"source_path": "A/in", "output_path": "B/ours.zip"})
	run := func(dir string, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, program := range []string{"zip", "unzip"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("%s is not installed; on Debian and Ubuntu: apt-get install %[1]s", program)
		}
	}
	run(s.B, "unzip", "-q", "ours.zip", "-d", "theirs")
	run(s.A, "zip", "-q", "-r", s.path("B/theirs.zip"), "in")
	s.run(t, "file.unzip", m{"archive_path": "B/theirs.zip", "output_directory": "B/ours"})
	for name, want := range files {
		for _, dir := range []string{"B/theirs/", "B/ours/"} {
			if got := s.read(t, dir+name[2:]); got != want {
				t.Errorf("%s%s has %d bytes, want %d", dir, name[2:], len(got), len(want))
			}
		}
	}
	info, err := os.Stat(s.path("B/ours/in/1"))
	if want := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC); err != nil || !info.ModTime().Equal(want) {
		t.Errorf("unpacked: %v, %v; want the time %v", info, err, want)
	}
}

// Times that the format can't hold are brought into its range.
func TestZipTimes(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/old": "o", "A/late": "l", "A/odd": "d"})
	for name, at := range map[string]time.Time{"old": time.Unix(-5e8, 0), "late": time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC), "odd": time.Unix(1700000001, 999)} {
		if err := os.Chtimes(s.path("A/"+name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, "file.zip", m{"source_path": "A/*", "output_path": "B/out.zip"})
	zr, err := zip.OpenReader(s.path("B/out.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer zr.Close()
	var got []int64
	for _, f := range zr.File {
		got = append(got, int64(f.Modified.Year()), f.Modified.Unix()%2)
	}
	if want := []int64{2106, 0, 2023, 0, 1980, 0}; !slices.Equal(got, want) {
		t.Errorf("years and parity of the times: %v, want %v", got, want)
	}
	out := s.run(t, "file.unzip", m{"archive_path": "B/out.zip", "output_directory": "B/out"})
	equal(t, out, "file_count", 3)
	if info, err := os.Stat(s.path("B/out/late")); err != nil || info.ModTime().After(time.Now()) {
		t.Errorf("%v, %v: lies in the future", info, err)
	}
}
