package file_test

import (
	"os"
	"slices"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func TestMove(t *testing.T) {
	files := map[string]string{"A/f": "text", "A/in/1.csv": "1", "A/in/x/2.csv": "2", "A/in/3.txt": "3", "B/dir/f": "old", "W/1/1/w": "work"}
	for _, c := range []struct {
		name string
		cfg  m
		want map[string]string
		out  []string
	}{
		{"renames", m{"source_path": "A/f", "destination_path": "A/g"}, map[string]string{"A/f": "-", "A/g": "text"}, []string{"/a/g"}},
		{"into a directory", m{"source_path": "A/f", "destination_path": "A/in"}, map[string]string{"A/f": "-", "A/in/f": "text"}, []string{"/a/in/f"}},
		{"into a new directory", m{"source_path": "A/f", "destination_path": "A/new/"}, map[string]string{"A/f": "-", "A/new/f": "text"}, []string{"/a/new/f"}},
		{"over a file", m{"source_path": "A/f", "destination_path": "A/in/3.txt"}, map[string]string{"A/f": "-", "A/in/3.txt": "text"}, []string{"/a/in/3.txt"}},
		{"across", m{"source_path": "A/f", "destination_path": "B/dir"}, map[string]string{"A/f": "-", "B/dir/f": "text"}, []string{"/b/dir/f"}},
		{"out of the workspace", m{"source_path": "1/1/w", "destination_path": "B/"}, map[string]string{"W/1/1/w": "-", "B/w": "work"}, []string{"/b/w"}},
		{"pattern", m{"source_path": "A/in/*", "destination_path": "A/in/done"}, map[string]string{"A/in/1.csv": "-", "A/in/x/2.csv": "2", "A/in/done/1.csv": "1", "A/in/done/3.txt": "3"}, []string{"/a/in/done/1.csv", "/a/in/done/3.txt"}},
		{"pattern across", m{"source_path": "A/**/*.csv", "destination_path": "B/dir"}, map[string]string{"A/in/x/2.csv": "-", "B/dir/in/x/2.csv": "2", "B/dir/in/1.csv": "1"}, []string{"/b/dir/in/1.csv", "/b/dir/in/x/2.csv"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, files)
			out := s.run(t, "file.move", c.cfg)
			equal(t, out, "moved_files", c.out)
			equal(t, out, "moved_file", c.out[0])
			for name, want := range c.want {
				if got := s.read(t, name); got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestMoveReports(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"W/1/f": "text", "A/f": "old"})
	for n, want := range [][]courier.File{
		{{Path: "1/f", Removed: true}, {Path: "2/g", Size: 4}},
		{{Path: "1/f", Removed: true}, {Path: "2/g", Size: 4}}, // the retry reports the same
	} {
		job := s.job()
		defer job.Close()
		out, err := s.in(t.Context(), job, registry(file.Limits{}), "file.move", m{"source_path": "1/f", "destination_path": "2/g"})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, out, "size", 4)
		if got := job.Reports().Files; !slices.Equal(got, want) {
			t.Errorf("attempt %d reports %+v, want %+v", n+1, got, want)
		}
	}
}

func TestMoveRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text", "A/d/g": "g", "B/d/f/x": "b"})
	os.Symlink("f", s.path("A/link"))
	os.Symlink("../b", s.path("A/out"))
	os.Link(s.path("A/f"), s.path("A/hardlink"))
	for _, c := range []struct {
		cfg   m
		words []string
	}{
		{m{"source_path": "/etc/passwd", "destination_path": "x"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/f", "destination_path": "/tmp/x"}, []string{"!engine.Options.Roots"}},
		{m{"source_path": "A/none", "destination_path": "x"}, []string{"no such file"}},
		{m{"source_path": "A/none?", "destination_path": "x"}, []string{"no file matches"}},
		{m{"source_path": "A/d", "destination_path": "A/e"}, []string{"!moves regular files only"}},
		{m{"source_path": "A", "destination_path": "B/"}, []string{"!moves regular files only"}},
		{m{"source_path": "A/link", "destination_path": "A/e"}, []string{"!is a symbolic link"}},
		{m{"source_path": "A/f", "destination_path": "A/f"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A/"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A/hardlink"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "A/link"}, []string{"!are the same file"}},
		{m{"source_path": "A/f", "destination_path": "B/d/"}, []string{"!is a directory; a file can't take its place"}},
		{m{"source_path": "A/f", "destination_path": "A/out/f"}, []string{"!leads out"}},
		{m{"source_path": "A/out/d/f/x", "destination_path": "A/x"}, []string{"!leads out"}},
		{m{"source_path": "A/f", "destination_path": "A/f/x"}, []string{"not a directory"}},
	} {
		s.refuse(t, "file.move", c.cfg, c.words...)
	}
	for _, source := range []string{"A/none", "A/none*"} {
		equal(t, s.run(t, "file.move", m{"source_path": source, "destination_path": "x", "ignore_missing": true}), "moved_files", []string{})
	}
}

func TestMoveSkip(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "new", "A/2": "new", "B/1": "old"})
	out := s.run(t, "file.move", m{"source_path": "A/*", "destination_path": "B", "if_exists": "skip"})
	equal(t, out, "moved_files", []string{"/b/1", "/b/2"})
	equal(t, out, "skipped_files", []string{"/b/1"})
	if got := s.read(t, "A/1") + s.read(t, "A/2") + s.read(t, "B/1") + s.read(t, "B/2"); got != "new-oldnew" {
		t.Errorf("files hold %q", got)
	}
	out = s.run(t, "file.move", m{"source_path": "A/1", "destination_path": "B", "if_exists": "skip"})
	equal(t, out, "skipped", true)
	equal(t, out, "reason", "file_exists")
}

// A file that a plan holds may be gone when its turn comes.
func TestMoveVanished(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "1", "A/2": "2"})
	cfg := m{"source_path": "A/*", "destination_path": "B"}
	if !s.kill(t, "file.move", cfg, 3) {
		t.Fatal("the step has ended")
	}
	os.Remove(s.path("A/2"))
	out := s.run(t, "file.move", cfg)
	equal(t, out, "moved_files", []string{"/b/1"})
	out = s.run(t, "file.move", cfg)
	equal(t, out, "moved_files", []string{"/b/1"})
}
