package steps_test

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/sftp"
)

// A source is where hostile input comes from: the workspace, or a server.
type source struct {
	files func(dir string) error // makes files in the workspace, before the world opens
	sftp  sftpserver.Script
	ftp   ftpserver.Options
	http  func(c net.Conn) // says what the HTTP server and the function app say
}

// newHostileWorld opens a world in dir with servers that do as from says.
func newHostileWorld(dir string, from source) (*world, error) {
	w := &world{dir: dir}
	for _, name := range []string{"W", "B", "ftp", "keys"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	server, err := sftpserver.NewHostile(from.sftp, &sftpserver.Options{Users: map[string]string{user: password}})
	if err != nil {
		return nil, err
	}
	network := memnet.Listen()
	w.serve(func() error { return server.Serve(network) }, server.Close)
	sconn := sftp.Connection{
		Host: "sftp.example.com", Username: user, Password: password, Dial: network.DialContext,
		HostKeys: []string{ssh.FingerprintSHA256(server.HostKey())},
	}
	fconn, err := w.serveFTP(from.ftp)
	if err != nil {
		return nil, err
	}
	keys, err := w.keys()
	if err != nil {
		return nil, err
	}
	web := w.listenRaw(from.http)
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	steps.Register(&w.reg, &steps.Options{
		Connections: sftp.Map{"sftp": sconn}, FTPConnections: ftp.Map{"ftp": fconn}, Keys: keys,
		HTTP: &httpreq.Options{AllowPlain: true, Lookup: lookup, Dial: web.DialContext},
		Exec: &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh"}}},
		Azure: &azure.Options{
			HTTP:        azure.HTTP{AllowPlain: true, Lookup: lookup, Dial: web.DialContext},
			Connections: azure.Map{"app": {URL: "http://app.example.com", FunctionKey: "function-key"}},
		},
	})
	return w, nil
}

// listenRaw starts a server that says what it likes to every request.
func (w *world) listenRaw(say func(c net.Conn)) *memnet.Listener {
	l := memnet.Listen()
	w.serve(func() error {
		for {
			c, err := l.Accept()
			if err != nil {
				return nil
			}
			go func() {
				defer c.Close()
				c.Read(make([]byte, 16<<10))
				if say != nil {
					say(c)
				}
			}()
		}
	}, l.Close)
	return l
}

// pour writes text until the other side has had enough.
func pour(w io.Writer, text string) {
	for {
		if _, err := io.WriteString(w, text); err != nil {
			return
		}
	}
}
