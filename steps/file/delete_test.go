package file_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
)

func TestDelete(t *testing.T) {
	files := map[string]string{"A/f": "f", "A/g": "g", "A/in/1.csv": "1", "A/in/x/2.csv": "2", "A/*": "star", "A/[g]": "brackets", "A/u.courier-tmp-1": "part", "W/1/w": "w"}
	for _, c := range []struct {
		name  string
		cfg   m
		gone  []string
		files []string
		count int
	}{
		{"a file", m{"path": "A/f"}, []string{"A/f"}, []string{"/a/f"}, 1},
		{"in the workspace", m{"path": "1/w"}, []string{"W/1/w"}, []string{"1/w"}, 1},
		{"a star is a name", m{"path": "A/*"}, []string{"A/*"}, []string{"/a/*"}, 1},
		{"a pattern", m{"path": "A/*", "glob": true}, []string{"A/*", "A/[g]", "A/f", "A/g"}, []string{"/a/*", "/a/[g]", "/a/f", "/a/g"}, 4},
		{"brackets are a name", m{"path": "A/[g]"}, []string{"A/[g]"}, []string{"/a/[g]"}, 1},
		{"brackets of nothing", m{"path": "A/[f]"}, nil, []string{}, 0},
		{"question mark", m{"path": "A/?"}, []string{"A/*", "A/f", "A/g"}, []string{"/a/*", "/a/f", "/a/g"}, 3},
		{"never a pattern", m{"path": "A/?", "glob": false}, nil, []string{}, 0},
		{"unfinished on demand", m{"path": "A/*.courier-tmp-*"}, []string{"A/u.courier-tmp-1"}, []string{"/a/u.courier-tmp-1"}, 1},
		{"all files", m{"path": "A/in/**"}, []string{"A/in/1.csv", "A/in/x/2.csv"}, []string{"/a/in/1.csv", "/a/in/x/2.csv"}, 2},
		{"a directory", m{"path": "A/in", "recursive": true}, []string{"A/in/1.csv", "A/in/x/2.csv"}, []string{"/a/in"}, 2},
		{"all", m{"path": "A/**", "recursive": true}, []string{"A/f", "A/g", "A/*", "A/[g]", "A/in/1.csv", "A/in/x/2.csv"}, []string{"/a/*", "/a/[g]", "/a/f", "/a/g", "/a/in"}, 6},
		{"nothing", m{"path": "A/none"}, nil, []string{}, 0},
		{"nothing there", m{"path": "A/none/none"}, nil, []string{}, 0},
		{"nothing below a file", m{"path": "A/f/none"}, nil, []string{}, 0},
		{"no match", m{"path": "A/none*"}, nil, []string{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, files)
			out := s.run(t, "file.delete", c.cfg)
			equal(t, out, "deleted_files", c.files)
			equal(t, out, "deleted_count", c.count)
			equal(t, out, "existed", c.count > 0)
			gone := " " + strings.Join(c.gone, " ") + " "
			for name, content := range files {
				want := content
				if strings.Contains(gone, " "+name+" ") {
					want = "-"
				}
				if got := s.read(t, name); got != want {
					t.Errorf("%s holds %q, want %q", name, got, want)
				}
			}
		})
	}
}

// A link is deleted, and what it leads to stays.
func TestDeleteLinks(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "f", "B/dir/g": "g", "A/d/h": "h"})
	os.Symlink("f", s.path("A/l1"))
	os.Symlink(s.path("B/dir"), s.path("A/l2"))
	os.Symlink("../b/dir", s.path("A/d/l3"))
	for _, p := range []string{"A/l1", "A/l2", "A/d"} {
		removeJournals(t, s)
		equal(t, s.run(t, "file.delete", m{"path": p, "recursive": true}), "existed", true)
	}
	if s.read(t, "A/f") != "f" || s.read(t, "B/dir/g") != "g" {
		t.Error("what a link led to is gone")
	}
	if left, _ := os.ReadDir(s.A); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestDeleteDangerous(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "f", "A/d/g": "g", "W/3/1/out": "own", "W/1/x": "x"})
	inside := filepath.Join(s.A, "d", "allowed")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	os.Symlink("/etc", s.path("A/etc"))
	r := registry(file.Limits{})
	dangerous := []string{
		"", ".", "./", "./.", "..", "../", "../..", "/", "//", "/.", "/..", "/../", "///", "/./.", "*/..", "*/../..", "a/..", "a/../..", "x/../../y", "1/../1",
		"/*", "/**", "/*/*", "/?", "//*", "/etc", "/etc/passwd", "/etc/*", "/tmp", "/usr/**", "/proc/self/environ", "/dev/null", "~root/../../etc", "../*", "../**", "../../*",
		"A", "A/", "A/.", "A//", "A/d/..", "A/d/../", "B", "B/../a", "A/../*", "A/*/..", "A/../../**", "W", "W/", "W/.", "W/1/..",
		s.Dir, s.Dir + "/*", s.Dir + "/", inside, inside + "/", "A/d", "A/etc/passwd", "A/etc/*", "3", "A/[", "A/\x00", "\x00",
	}
	for _, p := range dangerous {
		for _, recursive := range []bool{false, true} {
			before := s.snapshot(t)
			job := courier.NewContext(courier.ContextConfig{Execution: "x", Step: 3, Workspace: s.Work, Roots: []string{s.A, s.B, inside}})
			cfg := m{"path": p, "recursive": recursive}
			if p == "A/[" {
				cfg["glob"] = true
			}
			_, err := s.in(t.Context(), job, r, "file.delete", cfg)
			job.Close()
			// A link that leads out is no way to find anything.
			if err == nil && p != "A/etc/*" {
				t.Errorf("%q, recursive %v: no error", p, recursive)
			} else if err != nil && !courier.IsPermanent(err) {
				t.Errorf("%q, recursive %v: error %v is not permanent", p, recursive, err)
			}
			if after := s.snapshot(t); after != before {
				t.Fatalf("%q, recursive %v: changed\n%sto\n%s", p, recursive, before, after)
			}
			removeOwn(t, s)
		}
	}
}

// removeOwn removes the journal of an attempt that deleted nothing.
func removeOwn(t testing.TB, s *site) {
	t.Helper()
	os.Remove(filepath.Join(s.Work, ".notes", "3", "delete-journal.courier-tmp"))
}

func TestDeleteRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "f", "A/d/1": "1", "A/d/2": "2", "A/d/3/4": "4"})
	s.refuse(t, "file.delete", m{"path": "A/d"}, "!is a directory; set recursive")
	s.refuse(t, "file.delete", m{"path": "A/none", "ignore_missing": false}, "set ignore_missing")
	s.refuse(t, "file.delete", m{"path": "A/none*", "ignore_missing": false}, "set ignore_missing")
	r := registry(file.Limits{MaxDeletes: 3})
	for _, cfg := range []m{{"path": "A/d", "recursive": true}, {"path": "A/**"}, {"path": "A/*", "recursive": true}} {
		s.refuseWith(t, r, "file.delete", cfg, "!more than 3 files")
	}
	out, err := s.execute(t.Context(), r, "file.delete", m{"path": "A/d/*"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out, "deleted_count", 2)
}

// The files in a deleted directory are reported, or a resume would miss them.
func TestDeleteReports(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"W/1/d/1": "1", "W/1/d/2/3": "3"})
	for range 2 {
		job := s.job()
		defer job.Close()
		if _, err := s.in(t.Context(), job, registry(file.Limits{}), "file.delete", m{"path": "1/d", "recursive": true}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range job.Reports().Files {
			if f.Removed {
				got = append(got, f.Path)
			}
		}
		if strings.Join(got, " ") != "1/d/1 1/d/2/3 1/d" {
			t.Errorf("reported: %v", got)
		}
	}
}
