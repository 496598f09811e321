package file_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

func TestCopy(t *testing.T) {
	files := map[string]string{"A/f": "text", "A/in/1.csv": "1", "A/in/x/2.csv": "2", "A/in/x/.3.csv": "3", "A/in/4.txt": "4", "A/in/[1].csv": "b", "A/in/5.csv.courier-tmp-9": "part", "W/1/1/w": "work", "B/dir/other": "o"}
	for _, c := range []struct {
		name string
		cfg  m
		want map[string]string
		out  string
	}{
		{"to a file", m{"source_path": "A/f", "destination_path": "B/g"}, map[string]string{"B/g": "text"}, "/b/g"},
		{"into a directory", m{"source_path": "A/f", "destination_path": "B/dir"}, map[string]string{"B/dir/f": "text"}, "/b/dir/f"},
		{"into a new directory", m{"source_path": "A/f", "destination_path": "B/new/deep/"}, map[string]string{"B/new/deep/f": "text"}, "/b/new/deep/f"},
		{"over a file", m{"source_path": "A/f", "destination_path": "B/dir/other"}, map[string]string{"B/dir/other": "text"}, "/b/dir/other"},
		{"into the workspace", m{"source_path": "A/f", "destination_path": "new/f"}, map[string]string{"W/new/f": "text"}, "new/f"},
		{"in the workspace", m{"source_path": "1/1/w", "destination_path": "v"}, map[string]string{"W/v": "work"}, "v"},
		{"absolute in the workspace", m{"source_path": "W/1/1/w", "destination_path": "W/v"}, map[string]string{"W/v": "work"}, "v"},
		{"pattern", m{"source_path": "A/in/*.csv", "destination_path": "B/new"}, map[string]string{"B/new/1.csv": "1", "B/new/[1].csv": "b", "B/new/x/2.csv": "-", "B/new/5.csv.courier-tmp-9": "-"}, "/b/new/1.csv"},
		{"pattern for all", m{"source_path": "A/in/**", "destination_path": "B/dir"}, map[string]string{"B/dir/x/2.csv": "2", "B/dir/x/.3.csv": "3", "B/dir/4.txt": "4", "B/dir/other": "o"}, "/b/dir/1.csv"},
		{"brackets are a name", m{"source_path": "A/in/[1].csv", "destination_path": "B/g"}, map[string]string{"B/g": "b"}, "/b/g"},
		{"brackets as a pattern", m{"source_path": "A/in/[1].csv", "destination_path": "B/dir", "glob": true}, map[string]string{"B/dir/1.csv": "1", "B/dir/[1].csv": "-"}, "/b/dir/1.csv"},
		{"alternatives", m{"source_path": "A/in/{1,4}*", "destination_path": "B/dir"}, map[string]string{"B/dir/1.csv": "1", "B/dir/4.txt": "4"}, "/b/dir/1.csv"},
		{"unfinished on demand", m{"source_path": "A/in/*.courier-tmp-*", "destination_path": "B/dir"}, map[string]string{"B/dir/5.csv.courier-tmp-9": "part"}, "/b/dir/5.csv.courier-tmp-9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, files)
			out := s.run(t, "file.copy", c.cfg)
			equal(t, out, "copied_file", c.out)
			for name, want := range c.want {
				if got := s.read(t, name); got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
			for name, want := range files {
				if got := s.read(t, name); got != want && c.want[name] != got {
					t.Errorf("source %s holds %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestCopyRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text", "A/d/g": "g", "B/f": "b"})
	if err := os.Symlink(s.path("A/f"), s.path("A/absolute")); err != nil {
		t.Fatal(err)
	}
	os.Symlink("../b/f", s.path("A/escaping"))
	os.Symlink("nowhere", s.path("A/dangling"))
	os.Link(s.path("A/f"), s.path("A/hardlink"))
	os.Symlink("f", s.path("A/link"))
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{"source_path": "/etc/passwd", "destination_path": "x"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "/etc/*", "destination_path": "x/"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/f", "destination_path": "/tmp/x"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "../a/f", "destination_path": "x"}, []string{"!leads out of the workspace"}},
		{m{"source_path": "A/../../x", "destination_path": "x"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/none", "destination_path": "x"}, []string{"/a/none", "no such file"}},
		{m{"source_path": "A/none[1]", "destination_path": "x"}, []string{"set glob to true"}},
		{m{"source_path": "A/none*", "destination_path": "x"}, []string{"no file matches", "ignore_missing"}},
		{m{"source_path": "A/[", "destination_path": "x", "glob": true}, []string{"!malformed"}},
		{m{"source_path": "A/*/../*", "destination_path": "x"}, []string{"!malformed"}},
		{m{"source_path": "A/d", "destination_path": "x"}, []string{"!is a directory, not a regular file"}},
		{m{"source_path": "A", "destination_path": "x"}, []string{"!is a directory, not a regular file"}},
		{m{"source_path": "A/f", "destination_path": "A/f"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A"}, []string{"!are the same file"}},
		{m{"source_path": "A/*", "destination_path": "A/"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A/hardlink"}, []string{"!are the same file"}},
		{m{"source_path": "A/link", "destination_path": "A/f"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A/f/g"}, []string{"not a directory"}},
		{m{"source_path": "A/absolute", "destination_path": "x"}, []string{"!leads out"}},
		{m{"source_path": "A/escaping", "destination_path": "x"}, []string{"!leads out"}},
		{m{"source_path": "A/dangling", "destination_path": "x"}, []string{"no such file"}},
		{m{"source_path": "A/d/*", "destination_path": "A/f"}, []string{"!needs a directory"}},
	} {
		s.refuse(t, "file.copy", c.cfg, c.words...)
	}
	out := s.run(t, "file.copy", m{"source_path": "A/link", "destination_path": "B/followed"})
	equal(t, out, "copied_files", []string{"/b/followed"})
	if info, err := os.Lstat(s.path("B/followed")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the copy of a link: %v, %v", info, err)
	}
	for _, pattern := range []string{"A/none*", "A/none", "A/none/f", "A/f/none"} {
		out := s.run(t, "file.copy", m{"source_path": pattern, "destination_path": "x/", "ignore_missing": true})
		equal(t, out, "copied_files", []string{})
	}
}

func TestCopySkip(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "new", "A/2": "new", "B/1": "old"})
	out := s.run(t, "file.copy", m{"source_path": "A/1", "destination_path": "B", "if_exists": "skip"})
	equal(t, out, "copied_file", "/b/1")
	equal(t, out, "skipped", true)
	equal(t, out, "reason", "file_exists")
	out = s.run(t, "file.copy", m{"source_path": "A/*", "destination_path": "B", "if_exists": "skip"})
	equal(t, out, "copied_files", []string{"/b/1", "/b/2"})
	equal(t, out, "skipped_files", []string{"/b/1"})
	equal(t, out, "skipped", false)
	if got := s.read(t, "B/1") + s.read(t, "B/2"); got != "oldnew" {
		t.Errorf("files hold %q", got)
	}
}

func TestCopyKeeps(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text"})
	if err := os.Chmod(s.path("A/f"), 0o751|fs.ModeSetuid|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[any]fs.FileMode{nil: 0o751, "0604": 0o604, "407": 0o407} {
		for _, step := range []struct{ key, from, to string }{{"file.copy", "A/f", "B/copy"}, {"file.move", "B/copy", "B/moved"}, {"file.move", "B/moved", "W/across"}} {
			cfg := m{"source_path": step.from, "destination_path": step.to}
			if mode != nil {
				cfg["mode"] = mode
			}
			removeJournals(t, s)
			s.run(t, step.key, cfg)
			info, err := os.Lstat(s.path(step.to))
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode() != want || !info.ModTime().Equal(time.Date(2024, 5, 6, 7, 8, 9, 123456000, time.UTC)) {
				t.Errorf("%s with mode %v: %v, %v", step.key, mode, info.Mode(), info.ModTime())
			}
		}
	}
}

func removeJournals(t testing.TB, s *site) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(filepath.Join(s.Work, "3")), os.RemoveAll(filepath.Join(s.Work, ".notes"))); err != nil {
		t.Fatal(err)
	}
}

// None of these may be read, written or waited for.
func TestSpecialFiles(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text", "B/list": "", "A/d/f": "text"})
	if err := mkfifo(s.path("A/pipe")); err != nil {
		t.Fatal(err)
	}
	if err := mkfifo(s.path("A/d/pipe")); err != nil {
		t.Fatal(err)
	}
	// The address of a socket is short, and its name is the one that counts.
	t.Chdir(s.A)
	l, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, special := range []string{"A/pipe", "A/socket"} {
		for key, cfg := range map[string]m{
			"file.copy":  {"source_path": special, "destination_path": "B/x"},
			"file.move":  {"source_path": special, "destination_path": "B/x"},
			"file.zip":   {"source_path": special, "output_path": "B/x"},
			"file.unzip": {"archive_path": special},
			"file.list":  {"path": special},
		} {
			s.refuse(t, key, cfg, "!"+special[2:])
		}
		s.refuse(t, "file.copy", m{"source_path": "A/f", "destination_path": special}, "!a file can't take its place")
		s.refuse(t, "file.move", m{"source_path": "A/f", "destination_path": special}, "!a file can't take its place")
		s.refuse(t, "file.zip", m{"source_path": "A/f", "output_path": special}, "!a file can't take its place")
	}
	s.refuse(t, "file.zip", m{"source_path": "A/d", "output_path": "B/x"}, "!is a pipe")
	for key, cfg := range map[string]m{
		"file.copy":  {"source_path": "A/pipe/*", "destination_path": "B/x/"},
		"file.move":  {"source_path": "A/f", "destination_path": "A/pipe/f"},
		"file.zip":   {"source_path": "A/pipe/x"},
		"file.unzip": {"archive_path": "A/f", "output_directory": "A/pipe"},
		"file.list":  {"path": "A/pipe/x"},
	} {
		s.refuse(t, key, cfg)
	}
	equal(t, s.run(t, "file.delete", m{"path": "A/pipe/*"}), "existed", false)
	equal(t, s.run(t, "file.list", m{"path": "A"}), "file_count", 1)
	equal(t, s.run(t, "file.copy", m{"source_path": "A/*", "destination_path": "B/all/"}), "copied_files", []string{"/b/all/f"})
	equal(t, s.run(t, "file.delete", m{"path": "A/d/*"}), "deleted_files", []string{"/a/d/f", "/a/d/pipe"})
}

// /dev and /proc are outside, but a host may allow them by mistake.
func TestKernelFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	dir := t.TempDir()
	job := courier.NewContext(courier.ContextConfig{Workspace: dir, Roots: []string{"/dev", "/proc"}, Execution: "x"})
	defer job.Close()
	for _, source := range []string{"/dev/zero", "/dev/null", "/proc/self/environ", "/proc/self/mem", "/dev/fd/0", "/proc/self"} {
		_, err := (file.Copy{}).Execute(t.Context(), job, file.CopyConfig{SourcePath: courier.Pattern(source), DestinationPath: "x"})
		if err == nil {
			t.Errorf("%s is copied", source)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A source that grows or shrinks meanwhile is not published.
func TestCopyChangingSource(t *testing.T) {
	for _, key := range []string{"file.copy", "file.move", "file.zip", "file.unzip"} {
		s := newSite(t)
		s.write(t, map[string]string{"A/f": big(), "A/g": "text"})
		if key == "file.unzip" {
			s.write(t, map[string]string{"A/f": archiveOf(map[string]string{"A/1": medium()})})
		}
		s.progress = func(p courier.Progress) {
			if p.Done > 0 && p.Item == s.path("A/f") {
				f, err := os.OpenFile(s.path("A/f"), os.O_WRONLY|os.O_APPEND, 0)
				if err == nil {
					f.WriteString("more")
					f.Close()
				}
			}
		}
		cfg := m{"source_path": "A/f", "destination_path": "B/f"}
		switch key {
		case "file.zip":
			cfg = m{"source_path": "A/f", "output_path": "B/f"}
		case "file.unzip":
			cfg = m{"archive_path": "A/f", "output_directory": "B/f"}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := s.execute(ctx, registry(file.Limits{}), key, cfg)
		if err == nil || courier.IsPermanent(err) || !strings.Contains(err.Error(), "changed while") {
			t.Errorf("%s: error %v", key, err)
		}
		if list, _ := os.ReadDir(s.B); len(list) > 0 || s.read(t, "A/f") == "-" {
			t.Errorf("%s: left %v", key, list)
		}
	}
}

// What a step reports adds up to the bytes that it moved.
func TestProgress(t *testing.T) {
	size := int64(len(big()))
	for _, c := range []struct {
		key  string
		cfg  m
		want int64
	}{
		{"file.copy", m{"source_path": "A/**", "destination_path": "B/"}, size + 700},
		{"file.move", m{"source_path": "A/**", "destination_path": "B/"}, size + 700},
		{"file.move", m{"source_path": "A/1", "destination_path": "A/9"}, size}, // a rename
		{"file.move", m{"source_path": "A/x/*", "destination_path": "A/y/"}, 700},
		{"file.delete", m{"path": "A/**"}, 0},
		{"file.zip", m{"source_path": "A/**", "output_path": "B/x.zip"}, size + 700},
		{"file.unzip", m{"archive_path": "in.zip"}, 300<<10 + 3},
	} {
		s := newSite(t)
		s.write(t, map[string]string{"A/1": big(), "A/x/2": strings.Repeat("x", 700), "A/3": "", "W/in.zip": archiveOf(map[string]string{"A/1": "one", "A/2": medium()})})
		var last courier.Progress
		s.progress = func(p courier.Progress) {
			if p.Total >= 0 && p.Done > p.Total || p.Bytes < last.Bytes {
				t.Errorf("%s: progress %+v after %+v", c.key, p, last)
			}
			last = p
		}
		s.run(t, c.key, c.cfg)
		if last.Bytes != c.want {
			t.Errorf("%s: %d bytes reported, want %d", c.key, last.Bytes, c.want)
		}
	}
}

// A large file needs no more memory than a small one, and stops at once.
func TestLargeFile(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": ""})
	size := raced.Or[int64](32, 64) << 20
	if err := os.Truncate(s.path("A/f"), size); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	for _, step := range []struct {
		key string
		cfg m
	}{
		{"file.copy", m{"source_path": "A/f", "destination_path": "B/f"}},
		{"file.move", m{"source_path": "B/f", "destination_path": "A/g"}},
		{"file.zip", m{"source_path": "A/g", "output_path": "B/g.zip"}},
	} {
		runtime.ReadMemStats(&before)
		s.run(t, step.key, step.cfg)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 { // the blocks that are packed side by side
			t.Errorf("%s of %d bytes allocates %d", step.key, size, used)
		}
	}
	if info, err := os.Stat(s.path("A/g")); err != nil || info.Size() != size {
		t.Errorf("%v, %v", info, err)
	}
	runtime.ReadMemStats(&before)
	if _, err := s.execute(t.Context(), registry(file.Limits{MaxRatio: 2000}), "file.unzip", m{"archive_path": "B/g.zip"}); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 { // the blocks that are packed side by side
		t.Errorf("file.unzip of %d bytes allocates %d", size, used)
	}

	for _, key := range []string{"file.copy", "file.zip", "file.unzip"} {
		cause := errors.New("told to stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		var since time.Time
		s.progress = func(p courier.Progress) {
			if p.Done > 0 && since.IsZero() {
				since = time.Now()
				cancel(cause)
			}
		}
		cfg := map[string]m{
			"file.copy":  {"source_path": "A/f", "destination_path": "B/again"},
			"file.zip":   {"source_path": "A/f", "output_path": "B/again"},
			"file.unzip": {"archive_path": "B/g.zip", "output_directory": "B/again"},
		}[key]
		_, err := s.execute(ctx, registry(file.Limits{MaxRatio: 2000}), key, cfg)
		if !errors.Is(err, cause) || time.Since(since) > time.Second {
			t.Errorf("%s: error %v %v after it was cancelled", key, err, time.Since(since))
		}
		if _, err := os.Stat(s.path("B/again")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
