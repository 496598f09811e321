package sftp_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpdtest"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/remotetour"
	"github.com/courierhq/courier/internal/test/sshdtest"
	"github.com/courierhq/courier/internal/test/steprig"
)

var moreServers = flag.String("servers", "", "servers to test beside those that .ci/test installs, with commas between them: lsh, ssh2")

// A realServer is a program that serves SFTP.
type realServer struct {
	name  string
	start func(t *testing.T) (r *rig, cut func())
}

// realServers are those beside OpenSSH's.
func realServers() []realServer {
	all := []realServer{{"proftpd", startProFTPD}}
	names := sshdtest.Names()
	if *moreServers != "" {
		names = append(names, strings.Split(*moreServers, ",")...)
	}
	for _, name := range names {
		start := func(t *testing.T) (*rig, func()) {
			s := sshdtest.StartNamed(t, name)
			r := newReal(t, s.Addr, s.Dir, s.HostKey)
			r.conn.Username, r.conn.PrivateKey = s.User, string(s.ClientKey)
			return r, s.Cut
		}
		all = append(all, realServer{name, start})
	}
	return all
}

func startProFTPD(t *testing.T) (*rig, func()) {
	s := ftpdtest.ProFTPD(t, ftpdtest.SFTP)
	key, err := ssh.ParsePrivateKey([]byte(ftpserver.ServerKey))
	if err != nil {
		t.Fatal(err)
	}
	r := newReal(t, s.Addr, s.Dir, key.PublicKey())
	r.conn.Username, r.conn.Password = s.User, s.Password
	return r, s.Cut
}

// TestServers runs all steps against servers other than OpenSSH's, and goes on with
// transfers that were cut.
func TestServers(t *testing.T) {
	for _, s := range realServers() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r, cut := s.start(t)
			r.fullTour()
			for _, key := range []string{"sftp.upload", "sftp.download"} {
				r.resumeTour(key, cut)
			}
		})
	}
}

// fullTour uses all steps, with most of their options.
func (r *rig) fullTour() {
	r.T.Helper()
	ctx := r.T.Context()
	remotetour.Tour{
		TB: r.T, Family: "sftp", Work: r.Work, Remote: r.Remote, Path: ".",
		Run:      func(key string, cfg object) (object, error) { return r.Run(ctx, key, cfg) },
		Validate: func(key string, cfg object) error { return r.Validate(ctx, key, cfg) },
		Reconnect: func() {
			r.Resources.Close()
			r.Resources = &courier.Resources{}
		},
	}.Go()
}

// resumeTour has a transfer cut, and goes on with it.
func (r *rig) resumeTour(key string, cut func()) {
	t := r.T
	t.Helper()
	const size = 8_000_000
	name := "file of " + key
	cfg := object{"local_path": name, "remote_path": name, "resume": true}
	if key == "sftp.upload" {
		r.PutLocal(name, steprig.Content(size))
	} else {
		r.Put(name, steprig.Content(size))
		if err := os.Chmod(filepath.Join(r.Remote, name), 0o644); err != nil { // the server may be another user
			t.Fatal(err)
		}
	}
	isCut, least := false, int64(size)
	r.OnProgress = func(p courier.Progress) {
		if isCut && p.Done > 0 { // 0 is said before the part is compared
			least = min(least, p.Done)
		} else if p.Done > size/2 {
			isCut = true
			cut()
		}
	}
	r.Must(r.Run(t.Context(), key, cfg)) // connects again by itself
	r.OnProgress = nil
	if r.Get(name) != string(steprig.Content(size)) || r.GetLocal(name) != string(steprig.Content(size)) {
		t.Errorf("%s: the content differs", key)
	}
	if !isCut || least < size/4 {
		t.Errorf("%s: after the cut it was at %d bytes", key, least)
	}
	remove(r.Remote, name)
	remove(r.Work, name)
	steprig.WantTree(t, r.Remote)
}
