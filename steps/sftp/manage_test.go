package sftp_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/sftpserver"
)

func TestMkdir(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("file", nil)
		for _, test := range []struct{ path, made string }{
			{"one", "one"}, {"one", "one"}, {"one/two/three/", "one/two/three"}, {"/abs/deep", "/abs/deep"}, {"/", "/"}, {".", "."}, {"a//b", "a//b"},
		} {
			out := r.must(r.run(t.Context(), "sftp.mkdir", object{"remote_path": test.path}))
			info, err := os.Stat(filepath.Join(r.remote, test.path))
			if out["created_directory"] != test.made || err != nil || !info.IsDir() {
				t.Errorf("%s: %v, %v", test.path, out, err)
			}
		}
		if n := r.Count("mkdir"); n != 7 {
			t.Errorf("%d mkdir requests, want one for each directory, 7", n)
		}
		_, err := r.run(t.Context(), "sftp.mkdir", object{"remote_path": "file"})
		wantError(t, err, true, `make directory "file": is there, but is not a directory`)
		_, err = r.run(t.Context(), "sftp.mkdir", object{"remote_path": "file/below"})
		wantError(t, err, courier.IsPermanent(err), `make directory "file/below"`)
		_, err = r.run(t.Context(), "sftp.mkdir", object{"remote_path": "x\x00y"})
		wantError(t, err, true, "NUL")
	})
}

// TestMkdirRefused has the server refuse, and somebody else be faster.
func TestMkdirRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, sftpserver.Options{Fault: func(o sftpserver.Op) error {
			switch {
			case o.Method == "mkdir" && o.Path == "/no":
				return fs.ErrPermission
			case o.Method == "mkdir" && o.Path == "/late":
				return os.Mkdir(filepath.Join(r.remote, "late"), 0o700)
			}
			return nil
		}})
		_, err := r.run(t.Context(), "sftp.mkdir", object{"remote_path": "no/below"})
		wantError(t, err, true, `make directory "no/below": permission denied`, "ask the server's operator")
		r.must(r.run(t.Context(), "sftp.mkdir", object{"remote_path": "late"}))
	})
}

func TestRmdir(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		outside := t.TempDir()
		write(t, outside, "keep", []byte("x"))
		r.put("tree/a/b/c", nil)
		r.put("tree/bad \xff\nname", nil)
		r.put("tree/many/keep", nil)
		for i := range 250 {
			r.put(fmt.Sprintf("tree/many/%d", i), nil)
		}
		r.put("elsewhere/keep", nil)
		for name, to := range map[string]string{"tree/link": "../elsewhere", "tree/dangling": "nothing", "tree/out": outside} {
			if err := os.Symlink(to, filepath.Join(r.remote, name)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := r.run(t.Context(), "sftp.rmdir", object{"remote_path": "tree"})
		wantError(t, err, true, `remove directory "tree": the directory is not empty; set recursive`)
		_, err = r.run(t.Context(), "sftp.rmdir", object{"remote_path": "elsewhere/keep"})
		wantError(t, err, true, "is not a directory")
		_, err = r.run(t.Context(), "sftp.rmdir", object{"remote_path": "none", "ignore_missing": false})
		wantError(t, err, true, `remove directory "none": no such file`)
		for _, p := range []string{"/", "//", ".", "..", "a/..", "a/../b", "./x", "/a/."} {
			_, err = r.run(t.Context(), "sftp.rmdir", object{"remote_path": p, "recursive": true})
			wantError(t, err, true, "remote_path")
		}
		out := r.must(r.run(t.Context(), "sftp.rmdir", object{"remote_path": "tree/", "recursive": true}))
		if out["removed_directory"] != "tree" || out["existed"] != true {
			t.Errorf("%v", out)
		}
		wantTree(t, r.remote, "elsewhere/keep")
		wantTree(t, outside, "keep")
		r.must(r.run(t.Context(), "sftp.rmdir", object{"remote_path": "none"}))
	})
}

// TestRmdirAgain repeats the step after somebody has made the directory anew.
func TestRmdirAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put("tree/old", nil)
		cfg := object{"remote_path": "tree", "recursive": true, "ignore_missing": false}
		r.must(r.run(t.Context(), "sftp.rmdir", cfg))
		r.must(r.run(t.Context(), "sftp.rmdir", cfg))
		r.put("tree/new", nil)
		r.attempt++
		r.must(r.run(t.Context(), "sftp.rmdir", cfg))
		wantTree(t, r.remote, "tree/new")
	})
}

// TestRmdirHostile lists names that lead elsewhere, links as directories, and
// directories without end.
func TestRmdirHostile(t *testing.T) {
	for _, name := range []string{"../keep", "/keep", "a/../../keep", "x\x00", ""} {
		bubble(t, func(t *testing.T) {
			r := newRig(t, sftpserver.Options{Names: func(string, []string) []string { return []string{".", "..", name} }})
			r.put("keep", nil)
			r.put("tree/x", nil)
			_, err := r.run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true})
			wantError(t, err, true, "which leads elsewhere")
			wantTree(t, r.remote, "keep", "tree/x")
		})
	}
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Names: func(_ string, names []string) []string { return []string{"d"} }, Attrs: func(p string, a *sftpserver.Attrs) {
			a.Mode = os.ModeDir | 0o700
		}})
		r.put("tree/"+strings.Repeat("d/", 120)+"x", nil)
		_, err := r.run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true})
		wantError(t, err, true, "nested more than 100 levels")
	})
	bubble(t, func(t *testing.T) { // a link to a directory is no directory
		r := newRig(t, sftpserver.Options{})
		r.put("keep/x", nil)
		r.put("tree/y", nil)
		if err := os.Symlink("../keep", filepath.Join(r.remote, "tree", "link")); err != nil {
			t.Fatal(err)
		}
		r.must(r.run(t.Context(), "sftp.rmdir", object{"remote_path": "tree", "recursive": true}))
		wantTree(t, r.remote, "keep/x")
	})
}

func TestDelete(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a.csv", "in/b.csv", "in/c.txt", "in/sub/d.csv", "one"} {
			r.put(name, []byte("x"))
		}
		r.put("in/e.csv.courier-tmp-1-2-1.1", nil)
		out := r.must(r.run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "*.csv*"}))
		if fmt.Sprint(out["deleted_files"]) != "[in/a.csv in/b.csv]" || out["deleted_count"] != 2. || out["existed"] != true || out["deleted_file"] != "in/a.csv" {
			t.Errorf("%v", out)
		}
		out = r.must(r.run(t.Context(), "sftp.delete", object{"remote_path": "one"}))
		if out["deleted_file"] != "one" {
			t.Errorf("%v", out)
		}
		if got := r.reports[len(r.reports)-1]; got.Done != 1 || got.Bytes != 0 {
			t.Errorf("a deletion of one file is reported as %+v", got)
		}
		wantTree(t, r.remote, "in/c.txt", "in/e.csv.courier-tmp-1-2-1.1", "in/sub/d.csv")
		out = r.must(r.run(t.Context(), "sftp.delete", object{"remote_path": "none"}))
		if out["existed"] != false || out["deleted_count"] != 0. || fmt.Sprint(out["deleted_files"]) != "[]" {
			t.Errorf("%v", out)
		}
		_, err := r.run(t.Context(), "sftp.delete", object{"remote_path": "none2", "ignore_missing": false})
		wantError(t, err, true, `delete "none2": no such file`)
		_, err = r.run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "*.none", "ignore_missing": false})
		wantError(t, err, true, `no files that match "*.none"`, "ignore_missing")
		_, err = r.run(t.Context(), "sftp.delete", object{"remote_path": "in"})
		wantError(t, err, true, "is a directory", "sftp.rmdir")
		_, err = r.run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "a/../b"})
		wantError(t, err, true, "pattern", "leads out of remote_path")
	})
}

// TestDeleteAgain loses the answer of a deletion, and a new file comes under
// the name: nobody has decided that it shall go.
func TestDeleteAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var r *rig
		lost := true
		r = newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
			if o.Method == "remove" && lost {
				lost = false
				return sftpserver.ErrDrop
			}
			return nil
		}})
		r.put("in/a", []byte("old"))
		cfg := object{"remote_path": "in", "pattern": "*", "ignore_missing": false}
		_, err := r.run(t.Context(), "sftp.delete", cfg)
		wantError(t, err, false, "connection is lost")
		r.put("in/a", []byte("newer"))
		r.put("in/b", []byte("new"))
		r.attempt++
		out := r.must(r.run(t.Context(), "sftp.delete", cfg))
		if out["deleted_file"] != "in/a" || out["deleted_count"] != 1. {
			t.Errorf("%v", out)
		}
		wantTree(t, r.remote, "in/a", "in/b")
		if !strings.Contains(r.log.String(), "it stays") {
			t.Error("no warning about the file that stays")
		}
	})
}

func TestStat(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{Attrs: func(p string, a *sftpserver.Attrs) {
			if p == "/lies" {
				a.Size = -1
			}
		}})
		r.put("dir/file", content(1234))
		r.put("lies", nil)
		at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
		chtimes(filepath.Join(r.remote, "dir/file"), at)
		if err := os.Chmod(filepath.Join(r.remote, "dir/file"), 0o640); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]object{
			"dir/file": {"name": "file", "path": "dir/file", "exists": true, "size": 1234., "mode": "0640", "is_directory": false, "modified": "2024-05-06T07:08:09Z"},
			"dir":      {"name": "dir", "path": "dir", "exists": true, "size": 0., "mode": "0700", "is_directory": true},
			"none":     {"name": "none", "path": "none", "exists": false, "size": 0., "is_directory": false},
		} {
			out := r.must(r.run(t.Context(), "sftp.stat", object{"remote_path": path}))
			if path == "dir" {
				delete(out, "modified")
			}
			if fmt.Sprint(out) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", path, out, want)
			}
		}
		_, err := r.run(t.Context(), "sftp.stat", object{"remote_path": "none", "ignore_missing": false})
		wantError(t, err, true, `look at "none": no such file`)
		_, err = r.run(t.Context(), "sftp.stat", object{"remote_path": "lies"})
		wantError(t, err, true, "which no file has")
	})
}

func TestRename(t *testing.T) {
	for _, opt := range []sftpserver.Options{{}, {NoPosixRename: true}, {RenameReplaces: true}} {
		bubble(t, func(t *testing.T) {
			step := 0
			r := newRig(t, opt)
			rename := func(from, to, ifExists string) (object, error) {
				step++
				r.work = filepath.Join(t.TempDir(), fmt.Sprint(step)) // another execution
				cfg := object{"source_path": from, "destination_path": to}
				if ifExists != "" {
					cfg["if_exists"] = ifExists
				}
				return r.run(t.Context(), "sftp.rename", cfg)
			}
			r.put("a", []byte("a"))
			r.put("dir/x", []byte("old"))
			r.put("b", []byte("b"))
			if out := r.must(rename("a", "dir/", "")); out["renamed_file"] != "dir/a" {
				t.Errorf("%v", out)
			}
			if out := r.must(rename("b", "dir", "")); out["renamed_file"] != "dir/b" {
				t.Errorf("%v", out)
			}
			if out := r.must(rename("dir/a", "dir/x", "skip")); out["skipped"] != true || out["reason"] != "file_exists" || r.get("dir/x") != "old" {
				t.Errorf("%v", out)
			}
			_, err := rename("dir/a", "dir/x", "fail")
			wantError(t, err, true, `rename "dir/a": "dir/x" exists, and if_exists is "fail"; remove it`)
			r.must(rename("dir/a", "dir/x", ""))
			if r.get("dir/x") != "a" {
				t.Errorf("dir/x = %q", r.get("dir/x"))
			}
			r.must(rename("dir", "moved", ""))
			wantTree(t, r.remote, "moved/b", "moved/x")
			_, err = rename("none", "x", "")
			wantError(t, err, true, `rename "none": no such file`)
			_, err = rename("moved/b", "moved/b", "")
			wantError(t, err, true, "the new name is the old one")
			r.put("other/c", nil)
			_, err = rename("moved", "other/c", "")
			wantError(t, err, true, "can't replace")
			_, err = rename("moved/b", "none/b", "")
			wantError(t, err, courier.IsPermanent(err), `rename "moved/b"`)
			wantTree(t, r.remote, "moved/b", "moved/x", "other/c")
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
		"done, a new one came":  {func(r *rig) { r.put("a", []byte("new one")) }, "text", []string{"a", "b"}},
		"taken":                 {func(r *rig) { remove(r.remote, "b") }, "", nil},
		"taken, a new one came": {func(r *rig) { remove(r.remote, "b"); r.put("b", []byte("other")) }, "", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				lost := 3
				r := newRig(t, sftpserver.Options{FaultAfter: func(o sftpserver.Op) error {
					if (o.Method == "posix-rename" || o.Method == "lstat" && lost < 3) && lost > 0 {
						lost--
						return sftpserver.ErrDrop
					}
					return nil
				}})
				r.put("a", []byte("text"))
				_, err := r.run(t.Context(), "sftp.rename", cfg)
				wantError(t, err, false, "connection is lost")
				time.Sleep(2 * time.Second)
				test.between(r)
				out, err := r.retry(t.Context(), "sftp.rename", cfg)
				if test.want == "" {
					wantError(t, err, true, `rename "a"`, "the new")
				} else if err != nil || out["renamed_file"] != "b" || r.get("b") != test.want {
					t.Errorf("%v, %v, b = %q", out, err, r.get("b"))
				}
				wantTree(t, r.remote, test.files...)
			})
		})
	}
}

// TestOpenSSHManage does all of it on the real server.
func TestOpenSSHManage(t *testing.T) {
	r, _ := newOpenSSH(t)
	run := func(key string, cfg object) object { t.Helper(); return r.must(r.run(t.Context(), key, cfg)) }
	run("sftp.mkdir", object{"remote_path": "a/b/c"})
	r.put("a/b/c/1", []byte("one"))
	r.put("a/b/2", []byte("two"))
	r.put("a/keep", []byte("keep"))
	if err := os.Symlink("../keep", filepath.Join(r.remote, "a", "b", "link")); err != nil {
		t.Fatal(err)
	}
	if out := run("sftp.stat", object{"remote_path": "a/b/link"}); out["size"] != 4. || out["is_directory"] != false {
		t.Errorf("stat = %v", out)
	}
	run("sftp.rename", object{"source_path": "a/b/2", "destination_path": "a/b/c/1"})
	if r.get("a/b/c/1") != "two" {
		t.Error("the file was not replaced")
	}
	_, err := r.run(t.Context(), "sftp.rmdir", object{"remote_path": "a/b"})
	wantError(t, err, true, "not empty")
	run("sftp.rmdir", object{"remote_path": "a/b", "recursive": true})
	wantTree(t, r.remote, "a/keep")
	run("sftp.delete", object{"remote_path": "a/keep"})
	wantTree(t, r.remote)
	if out := run("sftp.stat", object{"remote_path": "a/keep"}); out["exists"] != false {
		t.Errorf("stat = %v", out)
	}
}

// TestRenameIntoMissingDirectory: the error names the directory that is missing, in a dry
// run too; with make_directories it is made.
func TestRenameIntoMissingDirectory(t *testing.T) {
	r := newRig(t, sftpserver.Options{})
	r.put("inv.csv", content(10))
	cfg := object{"source_path": "inv.csv", "destination_path": "out/deep/inv.csv"}
	want := []string{`rename "inv.csv"`, `destination_path: the remote directory "out/deep" doesn't exist`, "set make_directories"}
	wantError(t, r.validate(t.Context(), "sftp.rename", cfg), true, want...)
	_, err := r.run(t.Context(), "sftp.rename", cfg)
	wantError(t, err, true, want...)
	wantError(t, r.validate(t.Context(), "sftp.rename", object{"source_path": "inv.csv", "destination_path": "out/"}), true, `the remote directory "out" doesn't exist`)
	wantTree(t, r.remote, "inv.csv")

	cfg["make_directories"] = true
	if err := r.validate(t.Context(), "sftp.rename", cfg); err != nil {
		t.Error(err)
	}
	out := r.must(r.run(t.Context(), "sftp.rename", cfg))
	if out["renamed_file"] != "out/deep/inv.csv" {
		t.Errorf("%v", out)
	}
	wantTree(t, r.remote, "out/deep/inv.csv")
	if err := r.validate(t.Context(), "sftp.rename", object{"source_path": "out/deep/inv.csv", "destination_path": "out"}); err != nil {
		t.Errorf("into a directory that is there: %v", err)
	}
}
