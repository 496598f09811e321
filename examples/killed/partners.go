package main

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/store/memstore"
)

// partners are the SFTP servers of both sides, which are one server here: /out has acme's encrypted
// files, and the bank accepts files in /in.
type partners struct {
	connections, keys string // files
	server            *sftpserver.Server
	served            chan error
}

const (
	user     = "courier"
	password = "only for this example"
)

// startPartners makes a key and three encrypted archives, and serves them.
func startPartners(ctx context.Context, dir string) (*partners, error) {
	p := &partners{connections: filepath.Join(dir, "sftp.json"), keys: filepath.Join(dir, "us.asc"), served: make(chan error, 1)}
	root := filepath.Join(dir, "server")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "out"), 0o700), os.MkdirAll(filepath.Join(root, "in"), 0o700)); err != nil {
		return nil, err
	}
	key, err := pgp.GenerateKey("Us", "invoices@us.example")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(p.keys, key.Data, 0o600); err != nil {
		return nil, err
	}
	for _, name := range []string{"jan", "feb", "mar"} {
		if err := offer(ctx, dir, filepath.Join(root, "out"), name, key); err != nil {
			return nil, fmt.Errorf("prepare the partner's files: %w", err)
		}
	}
	if p.server, err = sftpserver.New(root, &sftpserver.Options{Users: map[string]string{user: password}}); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() { p.served <- p.server.Serve(l) }()
	server := map[string]any{
		"host": "127.0.0.1", "port": l.Addr().(*net.TCPAddr).Port, "username": user, "password": "secret:partner",
		"host_keys": []string{ssh.FingerprintSHA256(p.server.HostKey())},
	}
	text, err := json.Marshal(map[string]any{"acme": server, "bank": server})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, os.WriteFile(p.connections, text, 0o600)
}

func (p *partners) close() error { return errors.Join(p.server.Close(), <-p.served) }

// offer puts an encrypted archive with one file into a directory, like acme.
func offer(ctx context.Context, dir, out, name string, key pgp.Key) error {
	plain := filepath.Join(dir, name+".zip")
	f, err := os.Create(plain)
	if err != nil {
		return err
	}
	defer f.Close()
	z := zip.NewWriter(f)
	w, err := z.Create(name + ".csv")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "article;1;2.50"); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	ring := new(pgp.Keyring)
	if err := ring.Add("us", key); err != nil {
		return err
	}
	var reg courier.Registry
	pgp.Register(&reg, ring)
	file.Register(&reg, nil)
	e := engine.New(memstore.New(), &reg, &engine.Options{Roots: []string{dir}, Workspace: filepath.Join(dir, "acme")})
	_, err = e.Run(ctx, courier.Job{Name: "offer", Steps: []courier.StepSpec{{Type: "pgp.encrypt", Config: map[string]any{
		"source_path": plain, "output_path": out + "/", "recipient_key_ids": []string{"us"},
	}}}}, nil)
	return err
}
