package sftp_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestRoundTrip lists, downloads and uploads on one connection.
func TestRoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		mtime := time.Date(2024, 2, 29, 12, 30, 45, 0, time.UTC)
		for name, size := range map[string]int{"b.csv": 100_000, "a.csv": 0, "c.txt": 5} {
			r.Put("incoming/"+name, steprig.Content(size))
			if err := os.Chtimes(filepath.Join(r.Remote, "incoming", name), mtime, mtime); err != nil {
				t.Fatal(err)
			}
		}
		r.Put("incoming/sub/x.csv", nil)
		out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "/incoming", "pattern": "*.csv"}))
		file := func(name string, size float64) object {
			return object{"name": name, "path": "/incoming/" + name, "size": size, "modified": "2024-02-29T12:30:45Z", "is_directory": false}
		}
		want := object{"file_list": []any{file("a.csv", 0), file("b.csv", 100_000)}, "file_count": 2., "unsafe_count": 0., "not_ready_count": 0.}
		if !reflect.DeepEqual(out, want) {
			t.Errorf("list = %v, want %v", out, want)
		}

		for _, size := range []int{0, 100_000} {
			name := map[int]string{0: "a.csv", 100_000: "b.csv"}[size]
			out = r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "/incoming/" + name, "expected_size": size}))
			want := object{"downloaded_file": "3/1/" + name, "downloaded_files": []any{"3/1/" + name}, "file_count": 1., "size": float64(size),
				"modified": "2024-02-29T12:30:45Z", "unsafe_count": 0., "not_ready_count": 0., "skipped": false, "skipped_files": []any{}}
			if !reflect.DeepEqual(out, want) {
				t.Errorf("download = %v, want %v", out, want)
			}
			if got := r.GetLocal(out["downloaded_file"]); got != string(steprig.Content(size)) {
				t.Errorf("downloaded %d bytes, want %d", len(got), size)
			}
			if info, err := os.Stat(filepath.Join(r.Work, "3/1", name)); err != nil || !info.ModTime().Equal(mtime) {
				t.Errorf("modified %v, %v, want %v", info.ModTime(), err, mtime)
			}
			out = r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "3/1/" + name, "remote_path": "out-" + name}))
			want = object{"uploaded_file": "out-" + name, "uploaded_files": []any{"out-" + name}, "file_count": 1., "size": float64(size),
				"skipped_files": []any{}, "skipped": false}
			if !reflect.DeepEqual(out, want) {
				t.Errorf("upload = %v, want %v", out, want)
			}
			if got := r.Get("out-" + name); got != string(steprig.Content(size)) {
				t.Errorf("uploaded %d bytes, want %d", len(got), size)
			}
		}
		if n := r.net.Dialed(); n != 1 {
			t.Errorf("%d connections, want 1", n)
		}
		steprig.WantTree(t, r.Work, "3/1/a.csv", "3/1/b.csv")
		steprig.WantTree(t, r.Remote, "incoming/a.csv", "incoming/b.csv", "incoming/c.txt", "incoming/sub/x.csv", "out-a.csv", "out-b.csv")
	})
}

// TestSizes transfers files around the limits of packets and windows.
func TestSizes(t *testing.T) {
	servers := map[string]sftpserver.Options{
		"large packets": {},
		"small packets": {NoLimits: true},
		"short answers": {MaxRead: 5000, NoLimits: true},
		"bare":          {NoLimits: true, NoFsync: true, NoPosixRename: true},
	}
	const chunk, window = 255 << 10, 4 << 20
	for name, opt := range servers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, opt)
				for _, size := range []int{0, 1, 4999, 5000, 5001, 32<<10 - 1, 32 << 10, 32<<10 + 1, chunk - 1, chunk, chunk + 1, window - 1, window, window + chunk + 1} {
					r.PutLocal("x", steprig.Content(size))
					r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "x"}))
					if r.Get("x") != string(steprig.Content(size)) {
						t.Errorf("upload of %d bytes: the content differs", size)
					}
					out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "x", "local_path": "y"}))
					if r.GetLocal(out["downloaded_file"]) != string(steprig.Content(size)) {
						t.Errorf("download of %d bytes: the content differs", size)
					}
				}
				steprig.WantTree(t, r.Remote, "x")
				steprig.WantTree(t, r.Work, "3/sftp-download-note.courier-tmp", "x", "y") // what a repetition need not download
			})
		})
	}
}

// TestManyFiles transfers more files than are transferred at a time.
func TestManyFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		const n = 250
		var names []any
		total := 0.
		for i := range n {
			name := fmt.Sprintf("in/%03d.csv", i)
			names = append(names, name)
			r.Put(name, steprig.Content(i*10))
			total += float64(i * 10)
		}
		r.Put("in/other.txt", nil)
		out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "pattern": "*.csv", "local_path": "in/"}))
		if !reflect.DeepEqual(out["downloaded_files"], names) || out["size"] != total || out["file_count"] != float64(n) || out["downloaded_file"] != nil {
			t.Errorf("download = %v", out)
		}
		out = r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "in/*.csv", "remote_path": "in"}))
		if !reflect.DeepEqual(out["uploaded_files"], names) || out["size"] != total || out["file_count"] != float64(n) || out["uploaded_file"] != nil {
			t.Errorf("upload = %v", out)
		}
		for i := range n {
			if r.Get(fmt.Sprintf("in/%03d.csv", i)) != string(steprig.Content(i*10)) {
				t.Errorf("file %d differs", i)
			}
		}
		if got := steprig.Tree(t, r.Remote); len(got) != n+1 {
			t.Errorf("%d remote files, want %d", len(got), n+1)
		}
		if got := steprig.Tree(t, r.Work); len(got) != n {
			t.Errorf("%d local files, want %d", len(got), n)
		}
	})
}

func TestListOptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("one.csv", nil)
		r.Put("two.CSV", nil)
		r.Put("dir/three.csv", nil)
		r.Put("four.csv.courier-tmp-0198-3-1.1", nil)
		r.Must(r.Run(t.Context(), "sftp.list", nil))
		if err := errors.Join(os.Symlink("dir", filepath.Join(r.Remote, "link")), os.Symlink("one.csv", filepath.Join(r.Remote, "alias.csv")),
			os.Symlink("nowhere", filepath.Join(r.Remote, "broken.csv")), os.Symlink("/etc/passwd", filepath.Join(r.Remote, "outside.csv"))); err != nil {
			t.Fatalf("the file system has no symbolic links: %v", err)
		}
		for _, test := range []struct {
			cfg  object
			want []string
		}{
			{nil, []string{"one.csv", "two.CSV"}},
			{object{"include_directories": true}, []string{"dir/", "one.csv", "two.CSV"}},
			{object{"pattern": "*.{csv,CSV}"}, []string{"one.csv", "two.CSV"}},
			{object{"follow_links": true}, []string{"alias.csv", "one.csv", "two.CSV"}},
			{object{"follow_links": true, "include_directories": true}, []string{"alias.csv", "dir/", "link/", "one.csv", "two.CSV"}},
			{object{"follow_links": true, "pattern": "*.{csv,CSV}"}, []string{"alias.csv", "one.csv", "two.CSV"}},
			{object{"pattern": "t*"}, []string{"two.CSV"}},
			{object{"pattern": "none"}, nil},
			{object{"remote_path": "dir"}, []string{"three.csv"}},
			{object{"remote_path": "dir/"}, []string{"three.csv"}},
			{object{"remote_path": "/dir/../link"}, []string{"three.csv"}},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.list", test.cfg))
			var got []string
			for _, f := range out["file_list"].([]any) {
				name := f.(object)["name"].(string)
				if f.(object)["is_directory"] == true {
					name += "/"
				}
				got = append(got, name)
			}
			if !reflect.DeepEqual(got, test.want) || out["file_count"] != float64(len(got)) {
				t.Errorf("list %v = %q, want %q", test.cfg, got, test.want)
			}
		}
		for _, test := range []struct {
			cfg   object
			texts []string
		}{
			{object{"remote_path": "none"}, []string{`connection "partner" (files.example.com:22): list "none": no such file`, "login directory"}},
			{object{"remote_path": "one.csv"}, []string{`list "one.csv": is not a directory`}},
			{object{"pattern": "../b"}, []string{"pattern", "leads out of remote_path"}},
			{object{"pattern": "[a"}, []string{"pattern", "malformed"}},
			{object{"on_unsafe_name": "keep"}, []string{"on_unsafe_name", `"keep"`}},
			{object{"remote_path": "a\x00b"}, []string{"remote_path", "NUL"}},
			{object{"connection_id": "partnr"}, []string{`connection "partnr"`, `did you mean "partner"?`}},
		} {
			_, err := r.Run(t.Context(), "sftp.list", test.cfg)
			steprig.WantError(t, err, true, test.texts...)
		}
		if r.net.Dialed() != 1 {
			t.Errorf("%d connections, want 1: refusals by the server are no reason for another", r.net.Dialed())
		}
	})
}

func TestDownloadTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put("in/a.csv", []byte("a"))
		r.Put("in/b.csv", []byte("b"))
		r.Put("in/*", []byte("star"))
		r.Put("bad\\name", []byte("bad"))
		r.Put("empty/dir/x", nil)
		r.PutLocal("existing/keep", nil)
		r.PutLocal("file", []byte("old"))
		for _, test := range []struct {
			cfg  object
			want []string
		}{
			{object{"remote_path": "in/a.csv"}, []string{"3/1/a.csv"}},
			{object{"remote_path": "in/*"}, []string{"3/1/*"}},
			{object{"remote_path": "in/a.csv", "local_path": "file"}, []string{"file"}},
			{object{"remote_path": "in/a.csv", "local_path": "existing"}, []string{"existing/a.csv"}},
			{object{"remote_path": "in/a.csv", "local_path": "new/"}, []string{"new/a.csv"}},
			{object{"remote_path": "in/a.csv", "local_path": "new/deep/file"}, []string{"new/deep/file"}},
			{object{"remote_path": "bad\\name", "local_path": "good"}, []string{"good"}},
			{object{"remote_path": "in"}, []string{"3/1/*", "3/1/a.csv", "3/1/b.csv"}},
			{object{"remote_path": "in", "pattern": "b*"}, []string{"3/1/b.csv"}},
			{object{"remote_path": "in/", "local_path": "all", "pattern": "*.csv"}, []string{"all/a.csv", "all/b.csv"}},
			{object{"remote_path": "in", "pattern": "z*", "ignore_missing": true}, nil},
			{object{"remote_path": "none", "ignore_missing": true}, nil},
			{object{"remote_path": "empty", "ignore_missing": true}, nil},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.download", test.cfg))
			var got []string
			for _, f := range out["downloaded_files"].([]any) {
				got = append(got, f.(string))
				if base := filepath.Base(f.(string)); len(base) == 5 && r.GetLocal(f) != base[:1] {
					t.Errorf("%s = %q", f, r.GetLocal(f))
				}
			}
			single, _ := out["downloaded_file"].(string)
			if !reflect.DeepEqual(got, test.want) || (len(got) == 1) != (single != "") {
				t.Errorf("download %v = %q, %q, want %q", test.cfg, got, single, test.want)
			}
		}
		for _, test := range []struct {
			cfg   object
			texts []string
		}{
			{object{"remote_path": "in/none.csv"}, []string{`download "in/none.csv": no such file`, "login directory"}},
			{object{"remote_path": "in/*.csv"}, []string{"no such file", "set remote_path to their directory, and pattern"}},
			{object{"remote_path": "in/a.csv", "pattern": "*"}, []string{"not a directory"}},
			{object{"remote_path": "in", "pattern": "z*"}, []string{`no files that match "z*"`, "ignore_missing"}},
			{object{"remote_path": "in", "local_path": "file"}, []string{"local_path", "is a file"}},
			{object{"remote_path": "in", "expected_size": 1}, []string{"expected_size"}},
			{object{"remote_path": "in/a.csv", "expected_size": -1}, []string{"expected_size: must be at least 0"}},
			{object{"remote_path": "bad\\name"}, []string{"path separator", "set local_path"}},
			{object{"remote_path": "in/a.csv", "local_path": "/outside"}, []string{"engine.Options.Roots"}},
		} {
			_, err := r.Run(t.Context(), "sftp.download", test.cfg)
			steprig.WantError(t, err, true, test.texts...)
		}
		_, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "in/a.csv", "expected_size": 7})
		steprig.WantError(t, err, false, "has 1 bytes instead of the 7")
		_, err = r.Run(t.Context(), "sftp.download", object{"remote_path": "in/a.csv", "local_path": "../up"})
		steprig.WantError(t, err, true, "leads out of the workspace")
	})
}

func TestUploadTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"a.csv", "out/b.csv", "out/c.csv", "out/deep/d.csv", "out/[x].txt", "out/d.csv.courier-tmp-1"} {
			r.PutLocal(name, []byte(name))
		}
		r.Put("dir/keep", nil)
		r.Put("into/deep/keep", nil)
		r.Put("old", []byte("old"))
		for _, test := range []struct {
			cfg  object
			want map[string]string // local by remote
		}{
			{object{"local_path": "a.csv"}, map[string]string{"a.csv": "a.csv"}},
			{object{"local_path": "a.csv", "remote_path": "x.csv"}, map[string]string{"x.csv": "a.csv"}},
			{object{"local_path": "a.csv", "remote_path": "/old"}, map[string]string{"/old": "a.csv"}},
			{object{"local_path": "a.csv", "remote_path": "dir"}, map[string]string{"dir/a.csv": "a.csv"}},
			{object{"local_path": "a.csv", "remote_path": "/dir/"}, map[string]string{"/dir/a.csv": "a.csv"}},
			{object{"local_path": "a.csv", "remote_path": "/"}, map[string]string{"/a.csv": "a.csv"}},
			{object{"local_path": "out/*.csv", "remote_path": "dir"}, map[string]string{"dir/b.csv": "out/b.csv", "dir/c.csv": "out/c.csv"}},
			{object{"local_path": "out/**/*.csv", "remote_path": "into"}, map[string]string{"into/b.csv": "out/b.csv", "into/c.csv": "out/c.csv", "into/deep/d.csv": "out/deep/d.csv"}},
			{object{"local_path": "out/[x].txt"}, map[string]string{"[x].txt": "out/[x].txt"}},
			{object{"local_path": "out/none*", "ignore_missing": true}, map[string]string{}},
			{object{"local_path": "none", "ignore_missing": true}, map[string]string{}},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.upload", test.cfg))
			got := out["uploaded_files"].([]any)
			if len(got) != len(test.want) || (len(got) == 1) != (out["uploaded_file"] != nil) {
				t.Errorf("upload %v = %v", test.cfg, out)
			}
			for _, f := range got {
				local, ok := test.want[f.(string)]
				if !ok || r.Get(f.(string)) != local {
					t.Errorf("upload %v: %v = %q", test.cfg, f, r.Get(f.(string)))
				}
			}
		}
		for _, test := range []struct {
			cfg   object
			texts []string
		}{
			{object{"local_path": "none"}, []string{"local_path", "none"}},
			{object{"local_path": "out"}, []string{"is a directory", "/*"}},
			{object{"local_path": "none*"}, []string{"no file matches", "ignore_missing"}},
			{object{"local_path": "out/*.csv", "remote_path": "old"}, []string{"is not a directory"}},
			{object{"local_path": "out/*.csv", "remote_path": "new"}, []string{"is not a directory"}},
			{object{"local_path": "a.csv", "remote_path": "none/x.csv"}, []string{`the remote directory "none" doesn't exist`}},
			{object{"local_path": "a.csv", "remote_path": "none/"}, []string{`the remote directory "none" doesn't exist`}},
			{object{"local_path": "a.csv", "glob": true, "remote_path": "[", "if_exists": "replace"}, []string{"if_exists", `"replace"`}},
			{object{"local_path": "[", "glob": true}, []string{"malformed"}},
			{object{"local_path": "a.csv", "remote_path": "x\x00"}, []string{"NUL"}},
		} {
			_, err := r.Run(t.Context(), "sftp.upload", test.cfg)
			steprig.WantError(t, err, true, test.texts...)
		}
		for _, name := range steprig.Tree(t, r.Remote) {
			if strings.Contains(name, ".courier-tmp") {
				t.Errorf("%s was left behind", name)
			}
		}
	})
}

func TestIfExists(t *testing.T) {
	for name, opt := range map[string]sftpserver.Options{"posix-rename": {}, "no posix-rename": {NoPosixRename: true}, "plain rename replaces": {NoPosixRename: true, RenameReplaces: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, opt)
				r.PutLocal("a", []byte("new"))
				r.Put("a", []byte("old and longer"))
				out := r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "a", "if_exists": "skip"}))
				if r.Get("a") != "old and longer" || out["skipped"] != true || out["reason"] != "file_exists" || out["uploaded_file"] != "a" || out["file_count"] != 0. {
					t.Errorf("skip: %v, %q", out, r.Get("a"))
				}
				_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "a", "if_exists": "fail"})
				steprig.WantError(t, err, true, `upload "a": exists`, "if_exists")
				if !errors.Is(err, fs.ErrExist) || r.Get("a") != "old and longer" {
					t.Errorf("fail: %v, %q", err, r.Get("a"))
				}
				r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "a"}))
				if r.Get("a") != "new" {
					t.Errorf("overwrite: %q", r.Get("a"))
				}
				// A later attempt takes what has exactly the content for its own.
				for _, policy := range []string{"fail", "skip"} {
					out := r.Must(r.Retry(t.Context(), "sftp.upload", object{"local_path": "a", "if_exists": policy}))
					if out["skipped"] != false {
						t.Errorf("%s: %v", policy, out)
					}
				}
				r.Put("a", []byte("nev"))
				_, err = r.Retry(t.Context(), "sftp.upload", object{"local_path": "a", "if_exists": "fail"})
				steprig.WantError(t, err, true, "exists")
				r.Put("dir/x", nil)
				_, err = r.Run(t.Context(), "sftp.upload", object{"local_path": "a", "remote_path": "b"})
				if err != nil {
					t.Error(err)
				}
				steprig.WantTree(t, r.Remote, "a", "b", "dir/x")
			})
		})
	}
}
