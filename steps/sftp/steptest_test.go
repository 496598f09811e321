package sftp_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/steptest"
)

// stamp is what after_transfer adds to a name with archive.
var stamp = regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)

// TestContract holds the steps against the contract for retries. The requests
// that reach the server are places at which they are disturbed.
func TestContract(t *testing.T) {
	all := trials(600_000)
	all["download many"] = trial{key: "sftp.download", cfg: object{"remote_path": "dir"}, size: 1000}
	all["upload many"] = trial{key: "sftp.upload", cfg: object{"local_path": "*", "remote_path": "dir"}, size: 1000, old: "old"}
	all["list"] = trial{key: "sftp.list", cfg: object{"remote_path": "dir"}, size: 100}
	all["stat"] = trial{key: "sftp.stat", cfg: object{"remote_path": "dir/source"}, size: 100}
	all["mkdir"] = trial{key: "sftp.mkdir", cfg: object{"remote_path": "dir/a/b/c"}, size: 100}
	all["rmdir"] = trial{key: "sftp.rmdir", cfg: object{"remote_path": "tree/empty"}, size: 100}
	all["rmdir recursive"] = trial{key: "sftp.rmdir", cfg: object{"remote_path": "tree", "recursive": true}, size: 100}
	all["delete"] = trial{key: "sftp.delete", cfg: object{"remote_path": "dir/source"}, size: 100}
	all["delete many"] = trial{key: "sftp.delete", cfg: object{"remote_path": "dir", "pattern": "*"}, size: 100}
	rename := object{"source_path": "dir/source", "destination_path": "dir/target"}
	all["rename"] = trial{key: "sftp.rename", cfg: rename, size: 100}
	all["rename over"] = trial{key: "sftp.rename", cfg: object{"source_path": "dir/source", "destination_path": "dir/other"}, size: 100}
	all["rename over, no posix-rename"] = trial{key: "sftp.rename", size: 100, opt: sftpserver.Options{NoPosixRename: true},
		cfg: object{"source_path": "dir/source", "destination_path": "dir/other"}}
	all["rename unless there"] = trial{key: "sftp.rename", size: 100,
		cfg: object{"source_path": "dir/source", "destination_path": "dir/new", "if_exists": "fail"}}
	const big = 600_000
	all["download resume"] = trial{key: "sftp.download", cfg: object{"remote_path": "dir/source", "local_path": "target", "resume": true}, size: big, old: "old"}
	all["download resume here"] = trial{key: "sftp.download", cfg: object{"remote_path": "dir/source", "resume": true}, size: big}
	for _, ifExists := range []string{"skip", "fail"} {
		all["download or "+ifExists] = trial{key: "sftp.download", size: 1000, cfg: object{"remote_path": "dir/source", "local_path": "new", "if_exists": ifExists, "resume": false}}
		all["download or "+ifExists+", resume"] = trial{key: "sftp.download", size: big, cfg: object{"remote_path": "dir/source", "local_path": "new", "if_exists": ifExists, "resume": true}}
	}
	all["download and delete"] = trial{key: "sftp.download", size: 1000,
		cfg: object{"remote_path": "dir", "after_transfer": "delete", "preserve": "all", "skip_if_same": true, "checksum": "read_back"}}
	all["download and move"] = trial{key: "sftp.download", size: 1000,
		cfg: object{"remote_path": "dir/source", "local_path": "in/", "after_transfer": "move", "move_to": "archive/new", "done_file": "other"}}
	all["download and move, no posix-rename"] = trial{key: "sftp.download", size: 1000, opt: sftpserver.Options{NoPosixRename: true},
		cfg: object{"remote_path": "dir/source", "after_transfer": "move", "move_to": "dir/old", "resume": true}}
	all["download and archive"] = trial{key: "sftp.download", size: 1000,
		cfg: object{"remote_path": "dir", "local_path": "in/", "after_transfer": "archive", "move_to": "old/new", "skip_if_same": true}}
	all["upload and archive"] = trial{key: "sftp.upload", size: 1000,
		cfg: object{"local_path": "source*", "remote_path": "dir", "after_transfer": "archive", "move_to": "sent"}}
	all["upload resume"] = trial{key: "sftp.upload", size: big, old: "old",
		cfg: object{"local_path": "source", "remote_path": "dir/target", "resume": true, "preserve": "all"}}
	all["upload and delete"] = trial{key: "sftp.upload", size: 1000,
		cfg: object{"local_path": "source*", "remote_path": "dir", "after_transfer": "delete", "done_file": "*.done", "checksum": "sidecar"}}
	all["upload and move"] = trial{key: "sftp.upload", size: 1000, old: "old",
		cfg: object{"local_path": "source", "remote_path": "dir/target", "after_transfer": "move", "move_to": "sent", "resume": true}}
	all["download tree"] = trial{key: "sftp.download", size: 1000,
		cfg: object{"remote_path": ".", "pattern": "dir/**", "after_transfer": "move", "move_to": "gone"}}
	var keys []string
	for i, name := range slices.Sorted(maps.Keys(all)) {
		tr := all[name]
		keys = append(keys, tr.key)
		if raced.On && i%3 != 0 {
			continue // the run without the race detector has them
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Key:      tr.key,
				Setup: func(w *steptest.World) {
					remote := serve(w, tr.opt)
					tr.fill(w, remote)
					w.Config = object{"connection_id": steprig.Partner}
					for k, v := range tr.cfg {
						w.Config.(object)[k] = v
					}
				},
				Name:    func(name string) string { return stamp.ReplaceAllString(name, "-<time>") },
				Virtual: true,
				Places:  raced.Or(2, 10),
			})
		})
	}
	var r courier.Registry
	sftp.Register(&r, sftp.Map{})
	steptest.Cover(t, &r, keys...)
}

// fill is set for a world.
func (tr trial) fill(w *steptest.World, remote string) {
	at := func(name string) string { return filepath.Join(remote, name) }
	switch {
	case tr.upload():
		w.Write("source", string(steprig.Content(tr.size)))
		w.Write("source2", string(steprig.Content(tr.size+1)))
		w.Write(at("dir/keep"), "")
		if tr.old != "" {
			w.Write(at("dir/target"), tr.old)
		}
	default:
		w.Write(at("dir/source"), string(steprig.Content(tr.size)))
		w.Write(at("dir/other"), string(steprig.Content(10)))
		if tr.key == "sftp.rmdir" {
			w.Write(at("tree/sub/deep/x"), "x")
			w.Write(at("tree/y"), "y")
			if err := os.Mkdir(at("tree/empty"), 0o700); err != nil {
				w.Fatal(err)
			}
		}
		if tr.old != "" {
			w.Write("target", tr.old)
		}
	}
}

// serve starts a server of the world's own and returns the directory that it
// serves.
func serve(w *steptest.World, opt sftpserver.Options) string {
	remote := filepath.Join(w.Dir, "remote")
	opt.Users = map[string]string{steprig.User: steprig.Password}
	opt.Fault = func(o sftpserver.Op) error {
		if o.Method == "connect" || o.Method == "login" || o.Method == "sftp" {
			return nil
		}
		return w.Reach(o.String())
	}
	s, err := sftpserver.New(remote, &opt)
	if err != nil {
		w.Fatal(err)
	}
	net := memnet.Listen()
	done := make(chan error, 1)
	go func() { done <- s.Serve(net) }()
	w.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			w.Errorf("server: %v", err)
		}
	})
	sftp.Register(w.Registry, sftp.Map{steprig.Partner: {
		Host: "files.example.com", Username: steprig.User, Password: steprig.Password,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
		Dial:     net.DialContext,
	}})
	return remote
}
