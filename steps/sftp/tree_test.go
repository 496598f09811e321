package sftp_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/sftpserver"
)

// TestTrees moves files with the directories they are in, both ways.
func TestTrees(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a.csv", "in/b.txt", "in/sub/c.csv", "in/sub/deep/d.csv", "in/sub/deep/e.txt", "out/keep"} {
			r.put(name, []byte(name))
		}
		if err := os.Symlink("..", filepath.Join(r.remote, "in/sub/up")); err != nil {
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
			out := r.must(r.run(t.Context(), "sftp.list", object{"remote_path": "in", "pattern": pattern}))
			var got []string
			for _, f := range out["file_list"].([]any) {
				got = append(got, f.(object)["path"].(string))
			}
			if !reflect.DeepEqual(got, want) || out["unsafe_count"] != 0. {
				t.Errorf("pattern %q lists %q, want %q; %v", pattern, got, want, out["unsafe_count"])
			}
		}
		out := r.must(r.run(t.Context(), "sftp.download", object{"remote_path": "in", "pattern": "**/*.csv"}))
		want := []any{"3/1/a.csv", "3/1/sub/c.csv", "3/1/sub/deep/d.csv"}
		if !reflect.DeepEqual(out["downloaded_files"], want) || r.getLocal(want[2]) != "in/sub/deep/d.csv" {
			t.Errorf("downloaded %q, want %q", out["downloaded_files"], want)
		}
		out = r.must(r.run(t.Context(), "sftp.upload", object{"local_path": "3/1/**", "remote_path": "out"}))
		if out["file_count"] != 3. || r.get("out/sub/deep/d.csv") != "in/sub/deep/d.csv" {
			t.Errorf("%v; %q", out, tree(t, r.remote))
		}
		_, err := r.run(t.Context(), "sftp.upload", object{"local_path": "3/1/**", "remote_path": "typo/"})
		wantError(t, err, true, `make directory "typo/sub"`)
		out = r.must(r.run(t.Context(), "sftp.delete", object{"remote_path": "in", "pattern": "**/*.csv"}))
		if out["deleted_count"] != 3. {
			t.Errorf("%v", out)
		}
		wantTree(t, r.remote, "in/b.txt", "in/sub/deep/e.txt", "in/sub/up", "out/a.csv", "out/keep", "out/sub/c.csv", "out/sub/deep/d.csv")
	})
}

// TestTreeArchive waits for the companions of files in directories, and gives
// each file that it moves a name of its own.
func TestTreeArchive(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		for _, name := range []string{"in/a", "in/a.done", "in/sub/b.csv", "in/sub/b.csv.done", "in/sub/c.csv"} {
			r.put(name, []byte(name))
		}
		cfg := object{"remote_path": "in", "pattern": "**/*", "done_file": "*.done", "after_transfer": "archive", "move_to": "old", "resume": true}
		out := r.must(r.run(t.Context(), "sftp.download", cfg))
		if out["file_count"] != 2. || out["not_ready_count"] != 1. {
			t.Errorf("%v", out)
		}
		files := tree(t, r.remote)
		stamp := regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)
		if got := stamp.ReplaceAllString(strings.Join(files, " "), "-T"); got != "in/sub/c.csv old/a-T old/sub/b-T.csv" {
			t.Errorf("remote files are %q", files)
		}
		// The next attempt knows what was done, and under which names.
		again := r.must(r.retry(t.Context(), "sftp.download", cfg))
		if again["file_count"] != 2. || !reflect.DeepEqual(tree(t, r.remote), files) {
			t.Errorf("%v, %q", again, tree(t, r.remote))
		}
	})
}

// TestTreeHostile searches a server whose directories hold names that lead
// elsewhere, and one whose directories never end.
func TestTreeHostile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := &sftpserver.Attrs{Mode: os.ModeDir | 0o755}
		r := newHostile(t, sftpserver.Script{Dir: "/in", Content: []byte("x"), Entries: []sftpserver.Entry{
			{Name: "good"}, {Name: "..", Attrs: dir}, {Name: "../up", Attrs: dir}, {Name: "/etc", Attrs: dir}, {Name: "a/b"}, {Name: "a\\b\x00", Attrs: dir},
		}})
		out, err := r.run(t.Context(), "sftp.download", object{"remote_path": "/in", "pattern": "**", "local_path": "in/"})
		if err != nil {
			t.Fatal(err)
		}
		if out["file_count"] != 1. || out["unsafe_count"] != 4. {
			t.Errorf("%v", out)
		}
		wantTree(t, r.work, "in/good")
	})
	bubble(t, func(t *testing.T) {
		r := newRig(t, sftpserver.Options{})
		r.put(strings.Repeat("d/", 40)+"f", nil)
		_, err := r.run(t.Context(), "sftp.list", object{"pattern": "**"})
		wantError(t, err, true, "lies more than 32 directories deep")
	})
}
