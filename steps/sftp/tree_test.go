package sftp_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
)

// TestTrees moves files with the directories they are in, both ways.
func TestTrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a.csv", "in/b.txt", "in/sub/c.csv", "in/sub/deep/d.csv", "in/sub/deep/e.txt", "out/keep"} {
			r.Put(name, []byte(name))
		}
		if err := os.Symlink("..", filepath.Join(r.Remote, "in/sub/up")); err != nil {
			t.Fatal(err)
		}
		for pattern, want := range map[string][]string{
			"":                  {"in/a.csv", "in/b.txt"},
			"*.csv":             {"in/a.csv"},
			"*/*.csv":           {"in/sub/c.csv"},
			"**/*.csv":          {"in/a.csv", "in/sub/c.csv", "in/sub/deep/d.csv"},
			"**":                {"in/a.csv", "in/b.txt", "in/sub/c.csv", "in/sub/deep/d.csv", "in/sub/deep/e.txt"},
			"{sub,x}/deep/e.*":  {"in/sub/deep/e.txt"},
			"[r-t]ub/**/[ce].*": {"in/sub/c.csv", "in/sub/deep/e.txt"},
		} {
			out := r.Must(r.Run(t.Context(), "sftp.list", object{"remote_path": "in", "pattern": pattern}))
			var got []string
			for _, f := range out["file_list"].([]any) {
				got = append(got, f.(object)["path"].(string))
			}
			if !reflect.DeepEqual(got, want) || out["unsafe_count"] != 0. {
				t.Errorf("pattern %q lists %q, want %q; %v", pattern, got, want, out["unsafe_count"])
			}
		}
		out := r.Must(r.Run(t.Context(), "sftp.download", object{"remote_path": "in", "pattern": "**/*.csv"}))
		want := []any{"3/1/a.csv", "3/1/sub/c.csv", "3/1/sub/deep/d.csv"}
		if !reflect.DeepEqual(out["downloaded_files"], want) || r.GetLocal(want[2]) != "in/sub/deep/d.csv" {
			t.Errorf("downloaded %q, want %q", out["downloaded_files"], want)
		}
		out = r.Must(r.Run(t.Context(), "sftp.upload", object{"local_path": "3/1/**", "remote_path": "out"}))
		if out["file_count"] != 3. || r.Get("out/sub/deep/d.csv") != "in/sub/deep/d.csv" {
			t.Errorf("%v; %q", out, steprig.Tree(t, r.Remote))
		}
		_, err := r.Run(t.Context(), "sftp.upload", object{"local_path": "3/1/**", "remote_path": "typo/"})
		steprig.WantError(t, err, true, `make directory "typo/sub"`)
		out = r.Must(r.Run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "**/*.csv"}))
		if out["deleted_count"] != 3. {
			t.Errorf("%v", out)
		}
		steprig.WantTree(t, r.Remote, "in/b.txt", "in/sub/deep/e.txt", "in/sub/up", "out/a.csv", "out/keep", "out/sub/c.csv", "out/sub/deep/d.csv")
	})
}

// TestTreeArchive waits for the companions of files in directories, and gives
// each file that it moves a name of its own.
func TestTreeArchive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a", "in/a.done", "in/sub/b.csv", "in/sub/b.csv.done", "in/sub/c.csv"} {
			r.Put(name, []byte(name))
		}
		cfg := object{"remote_path": "in", "pattern": "**/*", "done_file": "*.done", "after_transfer": "archive", "move_to": "old", "resume": true}
		out := r.Must(r.Run(t.Context(), "sftp.download", cfg))
		if out["file_count"] != 2. || out["not_ready_count"] != 1. {
			t.Errorf("%v", out)
		}
		files := steprig.Tree(t, r.Remote)
		stamp := regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)
		if got := stamp.ReplaceAllString(strings.Join(files, " "), "-T"); got != "in/sub/c.csv old/a-T old/sub/b-T.csv" {
			t.Errorf("remote files are %q", files)
		}
		// The next attempt knows what was done, and under which names.
		again := r.Must(r.Retry(t.Context(), "sftp.download", cfg))
		if again["file_count"] != 2. || !reflect.DeepEqual(steprig.Tree(t, r.Remote), files) {
			t.Errorf("%v, %q", again, steprig.Tree(t, r.Remote))
		}
	})
}

// TestTreeHostile searches a server whose directories hold names that lead
// elsewhere, and one whose directories never end.
func TestTreeHostile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := &sftpserver.Attrs{Mode: os.ModeDir | 0o755}
		r := newHostile(t, sftpserver.Script{Dir: "/in", Content: []byte("x"), Entries: []sftpserver.Entry{
			{Name: "good"}, {Name: "..", Attrs: dir}, {Name: "../up", Attrs: dir}, {Name: "/etc", Attrs: dir}, {Name: "a/b"}, {Name: "a\\b\x00", Attrs: dir},
		}})
		out, err := r.Run(t.Context(), "sftp.download", object{"remote_path": "/in", "pattern": "**", "local_path": "in/"})
		if err != nil {
			t.Fatal(err)
		}
		if out["file_count"] != 1. || out["unsafe_count"] != 4. {
			t.Errorf("%v", out)
		}
		steprig.WantTree(t, r.Work, "in/good")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.Put(strings.Repeat("d/", 40)+"f", nil)
		_, err := r.Run(t.Context(), "sftp.list", object{"pattern": "**"})
		steprig.WantError(t, err, true, "lies more than 32 directories deep")
	})
}
