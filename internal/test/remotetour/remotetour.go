// Package remotetour runs all steps of a family that moves files to and from a
// server, one after the other, for tests against real servers.
package remotetour

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/steprig"
)

type object = steprig.Object

// A Tour is a server and a workspace, with which the steps of a family are run.
type Tour struct {
	testing.TB
	Family    string                                       // such as "sftp"
	Run       func(key string, cfg object) (object, error) // executes a step and returns its outputs as they are stored
	Validate  func(key string, cfg object) error           // does a dry run of a step
	Work      string                                       // the workspace
	Remote    string                                       // a directory that the server serves, empty at first, and after the tour
	Path      string                                       // of Remote on the server, such as "." or "/files"
	Reconnect func()                                       // ends the session. Pure-FTPd waits longer after each refusal in one.
}

// size of the large file. No packet or buffer ends where it does.
const size = 3_000_001

// Go makes the tour.
func (t Tour) Go() {
	t.Helper()
	steprig.Write(t, t.Work, "out/big", steprig.Content(size))
	steprig.Write(t, t.Work, "out/empty", nil)
	steprig.Write(t, t.Work, "out/grüße aus köln.txt", steprig.Content(11))
	at := time.Date(2024, 5, 6, 7, 8, 9, 0, time.UTC)
	if err := os.Chtimes(filepath.Join(t.Work, "out/big"), at, at); err != nil {
		t.Fatal(err)
	}
	for _, part := range []func(){t.files, t.refusals, t.targets, t.uploadTree, t.downloadTree, t.end} {
		part()
		t.Reconnect()
	}
}

// files moves single files, and asks for them.
func (t Tour) files() {
	t.Helper()
	if err := t.Validate(t.Family+".list", object{"remote_path": t.at(".")}); err != nil {
		t.Fatalf("validate list: %v", err)
	}
	if err := t.Validate(t.Family+".upload", object{"local_path": "out/*", "remote_path": t.at(".")}); err != nil {
		t.Fatalf("validate upload: %v", err)
	}
	t.must("mkdir", object{"remote_path": t.at("a/b c")})
	t.want(t.must("upload", object{"local_path": "out/*", "remote_path": t.at("a/b c/"), "preserve": "times", "checksum": "read_back"}), object{"file_count": 3.})
	// Again: onto files that exist.
	t.must("upload", object{"local_path": "out/*", "remote_path": t.at("a/b c")})
	steprig.WantTree(t, t.Remote, "a/b c/big", "a/b c/empty", "a/b c/grüße aus köln.txt")
	t.same(t.Remote, "a/b c/big", size)
	t.want(t.must("list", object{"remote_path": t.at("a"), "pattern": "**"}), object{"file_count": 3., "unsafe_count": 0.})
	t.want(t.must("list", object{"remote_path": t.at("a/b c"), "pattern": "*.txt"}), object{"file_count": 1.})
	out := t.must("stat", object{"remote_path": t.at("a/b c/big")})
	if t.want(out, object{"size": float64(size), "is_directory": false}); out["modified"] == nil {
		t.Errorf("stat: %v", out)
	}
	t.want(t.must("stat", object{"remote_path": t.at("a/b c")}), object{"is_directory": true})
	t.want(t.must("stat", object{"remote_path": t.at("a/none")}), object{"exists": false})
	t.want(t.must("download", object{"remote_path": t.at("a"), "pattern": "**/*", "local_path": "in/"}), object{"file_count": 3.})
	t.same(t.Work, "in/b c/big", size)
	t.same(t.Work, "in/b c/empty", 0)
	t.same(t.Work, "in/b c/grüße aus köln.txt", 11)
}

// refusals asks for what there is not, and for what a server may not do.
func (t Tour) refusals() {
	t.Helper()
	t.refused("a/none", "stat", object{"remote_path": t.at("a/none"), "ignore_missing": false})
	t.refused("a/none", "download", object{"remote_path": t.at("a/none")})
	t.refused("a/none", "list", object{"remote_path": t.at("a/none")})
	t.refused("a/none", "delete", object{"remote_path": t.at("a/none"), "ignore_missing": false})
	t.refused("a/none", "rename", object{"source_path": t.at("a/none"), "destination_path": t.at("a/new")})
	t.refused("a/b c", "rmdir", object{"remote_path": t.at("a/b c")})
}

// targets writes onto files that exist, in each way.
func (t Tour) targets() {
	t.Helper()
	t.refused("exists", "upload", object{"local_path": "out/big", "remote_path": t.at("a/b c/empty"), "if_exists": "fail"})
	t.want(t.must("upload", object{"local_path": "out/big", "remote_path": t.at("a/b c/empty"), "if_exists": "skip"}), object{"skipped": true})
	t.same(t.Remote, "a/b c/empty", 0)
	t.refused("exists", "rename", object{"source_path": t.at("a/b c/big"), "destination_path": t.at("a/b c/empty"), "if_exists": "fail"})
	t.must("rename", object{"source_path": t.at("a/b c/big"), "destination_path": t.at("a/b c/empty")})
	t.must("delete", object{"remote_path": t.at("a/b c"), "pattern": "*.txt"})
	steprig.WantTree(t, t.Remote, "a/b c/empty")
	t.must("rename", object{"source_path": t.at("a/b c/empty"), "destination_path": t.at("a/new/dir/x"), "make_directories": true})
	steprig.WantTree(t, t.Remote, "a/new/dir/x")
	t.must("download", object{"remote_path": t.at("a/new/dir/x"), "local_path": "moved", "after_transfer": "delete"})
	t.same(t.Work, "moved", size)
	steprig.WantTree(t, t.Remote)
}

// uploadTree uploads directories, with all that belongs to files.
func (t Tour) uploadTree() {
	t.Helper()
	steprig.Write(t, t.Work, "tree/x", steprig.Content(100))
	steprig.Write(t, t.Work, "tree/sub/deep/y", steprig.Content(5000))
	up := object{"local_path": "tree/**", "remote_path": t.at("a/"), "checksum": "sidecar", "done_file": "*.done", "preserve": "times", "after_transfer": "move", "move_to": "sent"}
	t.want(t.must("upload", up), object{"file_count": 2.})
	t.same(t.Work, "sent/sub/deep/y", 5000)
	steprig.WantTree(t, t.Remote, "a/sub/deep/y", "a/sub/deep/y.done", "a/sub/deep/y.sha256", "a/x", "a/x.done", "a/x.sha256")
}

// downloadTree fetches what uploadTree has left.
func (t Tour) downloadTree() {
	t.Helper()
	steprig.Write(t, t.Remote, "a/sub/deep/unfinished", nil)
	down := object{"remote_path": t.at("a"), "pattern": "**", "local_path": "back/", "checksum": "sidecar", "done_file": "*.done", "after_transfer": "move", "move_to": t.at("a/old")}
	t.want(t.must("download", down), object{"file_count": 2., "not_ready_count": 1.})
	t.same(t.Work, "back/sub/deep/y", 5000)
	t.same(t.Work, "back/x", 100)
	t.same(t.Remote, "a/old/sub/deep/y", 5000)
	t.same(t.Remote, "a/old/x", 100)
	t.must("delete", object{"remote_path": t.at("a"), "pattern": "**"})
	steprig.WantTree(t, t.Remote)
}

// end removes all that is left.
func (t Tour) end() {
	t.Helper()
	t.must("upload", object{"local_path": "out/*", "remote_path": t.at("a/")})
	t.must("rmdir", object{"remote_path": t.at("a"), "recursive": true})
	if entries, err := os.ReadDir(t.Remote); err != nil || len(entries) > 0 {
		t.Errorf("left are %v, %v", entries, err)
	}
}

// at is the path of a file on the server. A slash at the end stays.
func (t Tour) at(name string) string {
	if strings.HasSuffix(name, "/") {
		return path.Join(t.Path, name) + "/"
	}
	return path.Join(t.Path, name)
}

// must executes a step, which must succeed.
func (t Tour) must(step string, cfg object) object {
	t.Helper()
	out, err := t.Run(t.Family+"."+step, cfg)
	if err != nil {
		t.Fatalf("%s %v: %v", step, cfg, err)
	}
	return out
}

// refused executes a step that fails for good, with an error that says so.
func (t Tour) refused(text, step string, cfg object) {
	t.Helper()
	_, err := t.Run(t.Family+"."+step, cfg)
	if err == nil || !courier.IsPermanent(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s %v: error is %v, want a permanent one with %q", step, cfg, err, text)
	}
}

func (t Tour) want(got, want object) {
	t.Helper()
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v, in %v", k, got[k], v, got)
		}
	}
}

// same checks that a file has the content of n bytes.
func (t Tour) same(dir, name string, n int) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil || !bytes.Equal(data, steprig.Content(n)) {
		t.Errorf("%s has %d bytes, %v, want %d; or its content differs", name, len(data), err, n)
	}
}
