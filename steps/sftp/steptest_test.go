package sftp_test

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/memnet"
	"github.com/courierhq/courier/internal/sftpserver"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/steptest"
)

// TestContract holds the steps against the contract for retries. The requests
// that reach the server are places at which they are disturbed.
func TestContract(t *testing.T) {
	all := trials(600_000)
	all["list"] = trial{key: "sftp.list", cfg: object{"remote_path": "dir"}, size: 100}
	all["download many"] = trial{key: "sftp.download", cfg: object{"remote_path": "dir"}, size: 1000}
	all["upload many"] = trial{key: "sftp.upload", cfg: object{"local_path": "*", "remote_path": "dir"}, size: 1000, old: "old"}
	var keys []string
	for name, tr := range all {
		keys = append(keys, tr.key)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, steptest.Case{
				Key: tr.key,
				Setup: func(w *steptest.World) {
					remote := serve(w, tr.opt)
					tr.fill(w, remote)
					w.Config = object{"connection_id": partner}
					for k, v := range tr.cfg {
						w.Config.(object)[k] = v
					}
				},
				Virtual: true,
				Places:  10,
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
		w.Write("source", string(content(tr.size)))
		w.Write("source2", string(content(tr.size+1)))
		w.Write(at("dir/keep"), "")
		if tr.old != "" {
			w.Write(at("dir/target"), tr.old)
		}
	default:
		w.Write(at("dir/source"), string(content(tr.size)))
		w.Write(at("dir/other"), string(content(10)))
		if tr.old != "" {
			w.Write("target", tr.old)
		}
	}
}

// serve starts a server of the world's own and returns the directory that it
// serves.
func serve(w *steptest.World, opt sftpserver.Options) string {
	remote := filepath.Join(w.Dir, "remote")
	opt.Users = map[string]string{user: password}
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
	sftp.Register(w.Registry, sftp.Map{partner: {
		Host: "files.example.com", Username: user, Password: password,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
		Dial:     net.DialContext,
	}})
	return remote
}
