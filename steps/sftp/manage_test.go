package sftp_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

func TestMkdir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("file", nil)
		for _, test := range []struct{ path, made string }{
			{"one", "one"}, {"one", "one"}, {"one/two/three/", "one/two/three"}, {"/abs/deep", "/abs/deep"}, {"/", "/"}, {".", "."}, {"a//b", "a//b"},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.mkdir", object{"remote_path": test.path}))
			info, err := os.Stat(filepath.Join(r.Remote, test.path))
			if out["created_directory"] != test.made || err != nil || !info.IsDir() {
				t.Errorf("%s: %v, %v", test.path, out, err)
			}
		}
		if n := r.Count("mkdir"); n != 7 {
			t.Errorf("%d mkdir requests, want one for each directory, 7", n)
		}
		_, err := r.Run(t.Context(), "sftp.mkdir", object{"remote_path": "file"})
		steprig.WantError(t, err, true, `make directory "file": is there, but is not a directory`)
		_, err = r.Run(t.Context(), "sftp.mkdir", object{"remote_path": "file/below"})
		steprig.WantError(t, err, courier.IsPermanent(err), `make directory "file/below"`)
		_, err = r.Run(t.Context(), "sftp.mkdir", object{"remote_path": "x\x00y"})
		steprig.WantError(t, err, true, "NUL")
	})
}

// TestMkdirRefused has the server refuse, and somebody else be faster.
func TestMkdirRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			switch {
			case o.Method == "mkdir" && o.Path == "/no":
				return fs.ErrPermission
			case o.Method == "mkdir" && o.Path == "/late":
				return os.Mkdir(filepath.Join(r.Remote, "late"), 0o700)
			}
			return nil
		}})
		_, err := r.Run(t.Context(), "sftp.mkdir", object{"remote_path": "no/below"})
		steprig.WantError(t, err, true, `make directory "no/below": permission denied`, "ask the server's operator")
		r.Must(r.Run(t.Context(), "sftp.mkdir", object{"remote_path": "late"}))
	})
}

func TestRmdir(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		outside := t.TempDir()
		steprig.Write(t, outside, "keep", []byte("x"))
		r.Put("tree/a/b/c", nil)
		r.Put("tree/bad \xff\nname", nil)
		r.Put("tree/many/keep", nil)
		for i := range 250 {
			r.Put(fmt.Sprintf("tree/many/%d", i), nil)
		}
		r.Put("elsewhere/keep", nil)
		for name, to := range map[string]string{"tree/link": "../elsewhere", "tree/dangling": "nothing", "tree/out": outside} {
			if err := os.Symlink(to, filepath.Join(r.Remote, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "tree"})
		steprig.WantError(t, err, true, `remove directory "tree": the directory is not empty; set recursive`)
		_, err = r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "elsewhere/keep"})
		steprig.WantError(t, err, true, "is not a directory")
		_, err = r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "none", "ignore_missing": false})
		steprig.WantError(t, err, true, `remove directory "none": no such file`)
		for _, p := range []string{"/", "//", ".", "..", "a/..", "a/../b", "./x", "/a/."} {
			_, err = r.Run(t.Context(), "sftp.rmdir", object{"remote_path": p, "recursive": true})
			steprig.WantError(t, err, true, "remote_path")
		}
		out := r.Must(r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "tree/", "recursive": true}))
		if out["removed_directory"] != "tree" || out["existed"] != true {
			t.Errorf("%v", out)
		}
		steprig.WantTree(t, r.Remote, "elsewhere/keep")
		steprig.WantTree(t, outside, "keep")
		r.Must(r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "none"}))
	})
}

// TestRmdirAgain repeats the step after somebody has made the directory anew.
func TestRmdirAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("tree/old", nil)
		cfg := object{"remote_path": "tree", "recursive": true, "ignore_missing": false}
		r.Must(r.Run(t.Context(), "sftp.rmdir", cfg))
		r.Must(r.Run(t.Context(), "sftp.rmdir", cfg))
		r.Put("tree/new", nil)
		r.Attempt++
		r.Must(r.Run(t.Context(), "sftp.rmdir", cfg))
		steprig.WantTree(t, r.Remote, "tree/new")
	})
}

// TestRmdirHostile lists names that lead elsewhere, links as directories, and
// directories without end.
func TestRmdirHostile(t *testing.T) {
	for _, name := range []string{"../keep", "/keep", "a/../../keep", "x\x00", ""} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Names: func(string, []string) []string { return []string{".", "..", name} }})
			r.Put("keep", nil)
			r.Put("tree/x", nil)
			_, err := r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true})
			steprig.WantError(t, err, true, "which leads elsewhere")
			steprig.WantTree(t, r.Remote, "keep", "tree/x")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Names: func(_ string, names []string) []string { return []string{"d"} }, Attrs: func(p string, a *sftpserver.Attrs) {
			a.Mode = os.ModeDir | 0o700
		}})
		r.Put("tree/"+strings.Repeat("d/", 120)+"x", nil)
		_, err := r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true})
		steprig.WantError(t, err, true, "nested more than 100 levels")
	})
	synctest.Test(t, func(t *testing.T) { // a link to a directory is no directory
		r := newRig(t, sftpserver.Options{})
		r.Put("keep/x", nil)
		r.Put("tree/y", nil)
		if err := os.Symlink("../keep", filepath.Join(r.Remote, "tree", "link")); err != nil {
			t.Fatal(err)
		}
		r.Must(r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true}))
		steprig.WantTree(t, r.Remote, "keep/x")
	})
}

func TestDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a.csv", "in/b.csv", "in/c.txt", "in/sub/d.csv", "one"} {
			r.Put(name, []byte("x"))
		}
		r.Put("in/e.csv.courier-tmp-1-2-1.1", nil)
		out := r.Must(r.Run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "*.csv*"}))
		if fmt.Sprint(out["deleted_files"]) != "[in/a.csv in/b.csv]" || out["deleted_count"] != 2. || out["existed"] != true || out["deleted_file"] != "in/a.csv" {
			t.Errorf("%v", out)
		}
		out = r.Must(r.Run(t.Context(), "sftp.delete", object{"remote_path": "one"}))
		if out["deleted_file"] != "one" {
			t.Errorf("%v", out)
		}
		if got := r.Reports()[len(r.Reports())-1]; got.Done != 1 || got.Bytes != 0 {
			t.Errorf("a deletion of one file is reported as %+v", got)
		}
		steprig.WantTree(t, r.Remote, "in/c.txt", "in/e.csv.courier-tmp-1-2-1.1", "in/sub/d.csv")
		out = r.Must(r.Run(t.Context(), "sftp.delete", object{"remote_path": "none"}))
		if out["existed"] != false || out["deleted_count"] != 0. || fmt.Sprint(out["deleted_files"]) != "[]" {
			t.Errorf("%v", out)
		}
		_, err := r.Run(t.Context(), "sftp.delete", object{"remote_path": "none2", "ignore_missing": false})
		steprig.WantError(t, err, true, `delete "none2": no such file`)
		_, err = r.Run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "*.none", "ignore_missing": false})
		steprig.WantError(t, err, true, `no files that match "*.none"`, "ignore_missing")
		_, err = r.Run(t.Context(), "sftp.delete", object{"remote_path": "in"})
		steprig.WantError(t, err, true, "is a directory", "sftp.rmdir")
		_, err = r.Run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "a/../b"})
		steprig.WantError(t, err, true, "pattern", "leads out of remote_path")
	})
}

// TestDeleteAgain loses the answer of a deletion, and a new file comes under
// the name: nobody has decided that it shall go.
func TestDeleteAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		lost := true
		r = newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
			if o.Method == "remove" && lost {
				lost = false
				return sftpserver.ErrDrop
			}
			return nil
		}})
		r.Put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "pattern": "*", "ignore_missing": false}
		_, err := r.Run(t.Context(), "sftp.delete", cfg)
		steprig.WantError(t, err, false, "connection is lost")
		r.Put("in/a", []byte("newer"))
		r.Put("in/b", []byte("new"))
		r.Attempt++
		out := r.Must(r.Run(t.Context(), "sftp.delete", cfg))
		if out["deleted_file"] != "in/a" || out["deleted_count"] != 1. {
			t.Errorf("%v", out)
		}
		steprig.WantTree(t, r.Remote, "in/a", "in/b")
		if !strings.Contains(r.Log.String(), "it stays") {
			t.Error("no warning about the file that stays")
		}
	})
}

func TestStat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Attrs: func(p string, a *sftpserver.Attrs) {
			if p == "/lies" {
				a.Size = -1
			}
		}})
		r.Put("dir/file", steprig.Content(1234))
		r.Put("lies", nil)
		at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
		chtimes(filepath.Join(r.Remote, "dir/file"), at)
		if err := os.Chmod(filepath.Join(r.Remote, "dir/file"), 0o640); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]object{
			"dir/file": {"name": "file", "path": "dir/file", "exists": true, "size": 1234., "mode": "0640", "is_directory": false, "modified": "2024-05-06T07:08:09Z"},
			"dir":      {"name": "dir", "path": "dir", "exists": true, "size": 0., "mode": "0700", "is_directory": true},
			"none":     {"name": "none", "path": "none", "exists": false, "size": 0., "is_directory": false},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.stat", object{"remote_path": path}))
			if path == "dir" {
				delete(out, "modified")
			}
			if fmt.Sprint(out) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", path, out, want)
			}
		}
		_, err := r.Run(t.Context(), "sftp.stat", object{"remote_path": "none", "ignore_missing": false})
		steprig.WantError(t, err, true, `look at "none": no such file`)
		_, err = r.Run(t.Context(), "sftp.stat", object{"remote_path": "lies"})
		steprig.WantError(t, err, true, "which no file has")
	})
}

func TestRename(t *testing.T) {
	for _, opt := range []sftpserver.Options{{}, {NoPosixRename: true}, {RenameReplaces: true}} {
		synctest.Test(t, func(t *testing.T) {
			step := 0
			r := newRig(t, opt)
			rename := func(from, to, ifExists string) (object, error) {
				step++
				r.Work = filepath.Join(t.TempDir(), fmt.Sprint(step)) // another execution
				cfg := object{"source_path": from, "destination_path": to}
				if ifExists != "" {
					cfg["if_exists"] = ifExists
				}
				return r.Run(t.Context(), "sftp.rename", cfg)
			}
			r.Put("a", []byte("a"))
			r.Put("dir/x", []byte("old"))
			r.Put("b", []byte("b"))
			if out := r.Must(rename("a", "dir/", "")); out["renamed_file"] != "dir/a" {
				t.Errorf("%v", out)
			}
			if out := r.Must(rename("b", "dir", "")); out["renamed_file"] != "dir/b" {
				t.Errorf("%v", out)
			}
			if out := r.Must(rename("dir/a", "dir/x", "skip")); out["skipped"] != true || out["reason"] != "file_exists" || r.Get("dir/x") != "old" {
				t.Errorf("%v", out)
			}
			_, err := rename("dir/a", "dir/x", "fail")
			steprig.WantError(t, err, true, `rename "dir/a": "dir/x" exists, and if_exists is "fail"; remove it`)
			r.Must(rename("dir/a", "dir/x", ""))
			if r.Get("dir/x") != "a" {
				t.Errorf("dir/x = %q", r.Get("dir/x"))
			}
			r.Must(rename("dir", "moved", ""))
			steprig.WantTree(t, r.Remote, "moved/b", "moved/x")
			_, err = rename("none", "x", "")
			steprig.WantError(t, err, true, `rename "none": no such file`)
			_, err = rename("moved/b", "moved/b", "")
			steprig.WantError(t, err, true, "the new name is the old one")
			r.Put("other/c", nil)
			_, err = rename("moved", "other/c", "")
			steprig.WantError(t, err, true, "can't replace")
			_, err = rename("moved/b", "none/b", "")
			steprig.WantError(t, err, courier.IsPermanent(err), `rename "moved/b"`)
			steprig.WantTree(t, r.Remote, "moved/b", "moved/x", "other/c")
		})
	}
}

// TestRenameAgain repeats a renaming whose outcome nobody got to know.
func TestRenameAgain(t *testing.T) {
	cfg := object{"source_path": "a", "destination_path": "b"}
	for name, test := range map[string]struct {
		between func(r *rig)
		want    string // text of b; "" means an error
		files   []string
	}{
		"done":                  {func(r *rig) {}, "text", []string{"b"}},
		"done, a new one came":  {func(r *rig) { r.Put("a", []byte("new one")) }, "text", []string{"a", "b"}},
		"taken":                 {func(r *rig) { remove(r.Remote, "b") }, "", nil},
		"taken, a new one came": {func(r *rig) { remove(r.Remote, "b"); r.Put("b", []byte("other")) }, "", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				lost := 3
				r := newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
					if (o.Method == "posix-rename" || o.Method == "lstat" && lost < 3) && lost > 0 {
						lost--
						return sftpserver.ErrDrop
					}
					return nil
				}})
				r.Put("a", []byte("text"))
				_, err := r.Run(t.Context(), "sftp.rename", cfg)
				steprig.WantError(t, err, false, "connection is lost")
				time.Sleep(2 * time.Second)
				test.between(r)
				out, err := r.Retry(t.Context(), "sftp.rename", cfg)
				if test.want == "" {
					steprig.WantError(t, err, true, `rename "a"`, "the new")
				} else if err != nil || out["renamed_file"] != "b" || r.Get("b") != test.want {
					t.Errorf("%v, %v, b = %q", out, err, r.Get("b"))
				}
				steprig.WantTree(t, r.Remote, test.files...)
			})
		})
	}
}

// TestOpenSSHManage does all of it on the real server.
func TestOpenSSHManage(t *testing.T) {
	r, _ := newOpenSSH(t)
	run := func(key string, cfg object) object { t.Helper(); return r.Must(r.Run(t.Context(), key, cfg)) }
	run("sftp.mkdir", object{"remote_path": "a/b/c"})
	r.Put("a/b/c/1", []byte("one"))
	r.Put("a/b/2", []byte("two"))
	r.Put("a/keep", []byte("keep"))
	if err := os.Symlink("../keep", filepath.Join(r.Remote, "a", "b", "link")); err != nil {
		t.Fatal(err)
	}
	if out := run("sftp.stat", object{"remote_path": "a/b/link"}); out["size"] != 4. || out["is_directory"] != false {
		t.Errorf("stat = %v", out)
	}
	run("sftp.rename", object{"source_path": "a/b/2", "destination_path": "a/b/c/1"})
	if r.Get("a/b/c/1") != "two" {
		t.Error("the file was not replaced")
	}
	_, err := r.Run(t.Context(), "sftp.rmdir", object{"remote_path": "a/b"})
	steprig.WantError(t, err, true, "not empty")
	run("sftp.rmdir", object{"remote_path": "a/b", "recursive": true})
	steprig.WantTree(t, r.Remote, "a/keep")
	run("sftp.delete", object{"remote_path": "a/keep"})
	steprig.WantTree(t, r.Remote)
	if out := run("sftp.stat", object{"remote_path": "a/keep"}); out["exists"] != false {
		t.Errorf("stat = %v", out)
	}
}

// TestRenameIntoMissingDirectory: the error names the directory that is missing, in a dry
// run too; with make_directories it is made.
func TestRenameIntoMissingDirectory(t *testing.T) {
	r := newRig(t, sftpserver.Options{})
	r.Put("inv.csv", steprig.Content(10))
	cfg := object{"source_path": "inv.csv", "destination_path": "out/deep/inv.csv"}
	want := []string{`rename "inv.csv"`, `destination_path: the remote directory "out/deep" doesn't exist`, "set make_directories"}
	steprig.WantError(t, r.Validate(t.Context(), "sftp.rename", cfg), true, want...)
	_, err := r.Run(t.Context(), "sftp.rename", cfg)
	steprig.WantError(t, err, true, want...)
	steprig.WantError(t, r.Validate(t.Context(), "sftp.rename", object{"source_path": "inv.csv", "destination_path": "out/"}), true, `the remote directory "out" doesn't exist`)
	steprig.WantTree(t, r.Remote, "inv.csv")

	cfg["make_directories"] = true
	if err := r.Validate(t.Context(), "sftp.rename", cfg); err != nil {
		t.Error(err)
	}
	out := r.Must(r.Run(t.Context(), "sftp.rename", cfg))
	if out["renamed_file"] != "out/deep/inv.csv" {
		t.Errorf("%v", out)
	}
	steprig.WantTree(t, r.Remote, "out/deep/inv.csv")
	if err := r.Validate(t.Context(), "sftp.rename", object{"source_path": "out/deep/inv.csv", "destination_path": "out"}); err != nil {
		t.Errorf("into a directory that is there: %v", err)
	}
}
