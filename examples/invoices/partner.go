package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// A partner is the other side: a server with encrypted files, and the keys to
// decrypt them.
type partner struct {
	connections sftp.Connections
	keys        pgp.Keys
	remote      string // directory on the server
	where       string // the address, for people
	server      *sftpserver.Server
	dir         string
	served      chan error
}

// newPartner returns the partner that the command line selects.
func newPartner(ctx context.Context, s settings, d *dirs) (*partner, error) {
	if s.connection == "" {
		return startPartner(ctx)
	}
	connections, err := sftp.ReadConnections(s.connection)
	if err != nil {
		return nil, err
	}
	if _, err := connections.Connection(ctx, "partner"); err != nil {
		return nil, fmt.Errorf("%s: %w; the pipeline uses the connection \"partner\"", s.connection, err)
	}
	keys, err := pgp.ReadKeyring(s.key, nil)
	if err != nil {
		return nil, err
	}
	return &partner{connections: connections, keys: keys, remote: s.remote, where: s.remote + " on " + connections["partner"].Host}, nil
}

// secret reads a secret from the file with its name, in the directory of the connection's file.
func (s settings) secret(_ context.Context, r courier.SecretRequest) (string, error) {
	root, err := os.OpenRoot(filepath.Dir(s.connection))
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := root.ReadFile(r.Name)
	return strings.TrimRight(string(text), "\r\n"), err
}

// startPartner starts a server inside this process, with files for us.
func startPartner(ctx context.Context) (*partner, error) {
	dir, err := os.MkdirTemp("", "partner-")
	if err != nil {
		return nil, err
	}
	p := &partner{dir: dir, remote: "/outgoing", served: make(chan error, 1)}
	if err := p.start(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *partner) start(ctx context.Context) error {
	const user, password = "us", "not so secret"
	key, err := pgp.GenerateKey("Our Company", "invoices@us.example")
	if err != nil {
		return err
	}
	ring := new(pgp.Keyring)
	if err := ring.Add("us", key); err != nil {
		return err
	}
	if err := fillOutgoing(ctx, filepath.Join(p.dir, "root", "outgoing"), filepath.Join(p.dir, "work"), ring); err != nil {
		return fmt.Errorf("prepare the partner's files: %w", err)
	}
	p.server, err = sftpserver.New(filepath.Join(p.dir, "root"), &sftpserver.Options{Users: map[string]string{user: password}})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { p.served <- p.server.Serve(l) }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	p.keys, p.where = ring, "the partner's directory "+p.remote+" on "+l.Addr().String()
	p.connections = sftp.Map{"partner": {
		Host: "127.0.0.1", Port: n, Username: user, Password: password,
		HostKeys: []string{fingerprint(p.server)},
	}}
	return nil
}

func (p *partner) close() error {
	var errs []error
	if p.server != nil {
		errs = append(errs, p.server.Close())
		if p.connections != nil {
			errs = append(errs, <-p.served)
		}
	}
	if p.dir != "" {
		errs = append(errs, os.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// fillOutgoing puts files into a directory: zip files with invoices, encrypted by a pipeline of the
// partner's own, an empty file, which must not make a pipeline fail, and a file that lacks its end.
func fillOutgoing(ctx context.Context, outgoing, work string, keys pgp.Keys) error {
	if err := os.MkdirAll(outgoing, 0o700); err != nil {
		return err
	}
	plain := filepath.Join(work, "plain")
	if err := os.MkdirAll(plain, 0o700); err != nil {
		return err
	}
	var archives []string
	for i := range 5 {
		name := filepath.Join(plain, fmt.Sprintf("acme-%03d.zip", i+1))
		if err := writeInvoices(name, i); err != nil {
			return err
		}
		archives = append(archives, name)
	}
	var reg courier.Registry
	pgp.Register(&reg, keys)
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: filepath.Join(work, "engine"), Roots: []string{plain, outgoing}})
	_, err := e.Run(ctx, courier.Job{Name: "partner", Params: map[string]any{"archives": nil, "outgoing": nil}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.archives"}},
		{Type: "pgp.encrypt", Config: map[string]any{
			"source_path": "context:loop.current_item", "output_path": "${context:params.outgoing}/", "recipient_key_ids": []string{"us"},
		}},
		{Type: "flow.end"},
	}}, &courier.EnqueueOptions{Params: map[string]any{"archives": archives, "outgoing": outgoing}})
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(outgoing, "acme-006.zip.pgp"), nil, 0o600)
	whole, bad := os.ReadFile(filepath.Join(outgoing, "acme-005.zip.pgp"))
	if err = errors.Join(err, bad); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(outgoing, "acme-007.zip.pgp"), whole[:len(whole)/2], 0o600)
}

// writeInvoices writes a zip file with some invoices; the third is a large one.
func writeInvoices(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := zip.NewWriter(f)
	for i := range 3 {
		lines := 40
		if n == 2 {
			lines = 20_000
		}
		out, err := w.Create(fmt.Sprintf("invoice-%03d-%d.csv", n+1, i+1))
		if err != nil {
			return err
		}
		random := rand.New(rand.NewPCG(uint64(n), uint64(i)))
		for l := range lines {
			fmt.Fprintf(out, "%d,article %d,%d,%d.%02d\n", l, random.IntN(1e6), random.IntN(100), random.IntN(1e4), random.IntN(100))
		}
	}
	return errors.Join(w.Close(), f.Sync())
}

// fingerprint returns the fingerprint of the server's key, which a partner would give us on paper.
func fingerprint(s *sftpserver.Server) string { return ssh.FingerprintSHA256(s.HostKey()) }
