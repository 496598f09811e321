package main

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/memstore"
)

// The files that the partner sends every day.
const (
	perDay     = 2 // archives
	perArchive = 3 // invoices
)

// The keys for which the partner encrypts files.
const (
	keyNow  = "us 2026"
	keyNext = "us 2027" // we do not have it at first
)

// A partner is the other side: an SFTP server inside this process, and the engine that puts files
// there.
type partner struct {
	connections sftp.Map // how we connect to it
	ourKeys     *pgp.Keyring

	dir    string
	keys   map[string]pgp.Key
	engine *engine.Engine // the partner's own
	server *sftpserver.Server
	served chan error
}

// startPartner starts the server in a directory.
func startPartner(dir string) (*partner, error) {
	const user, password = "us", "not so secret"
	p := &partner{dir: dir, keys: make(map[string]pgp.Key), ourKeys: new(pgp.Keyring), served: make(chan error, 1)}
	theirs := new(pgp.Keyring)
	for _, name := range []string{keyNow, keyNext} {
		key, err := pgp.GenerateKey(name, "invoices@us.example")
		if err == nil {
			err = theirs.Add(name, key)
		}
		if err != nil {
			return nil, err
		}
		p.keys[name] = key
	}
	if err := p.handOver(keyNow); err != nil {
		return nil, err
	}
	for _, sub := range []string{"root/outgoing", "plain"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, err
		}
	}
	var reg courier.Registry
	pgp.Register(&reg, theirs)
	p.engine = engine.New(memstore.New(), &reg, &engine.Options{Workspace: filepath.Join(dir, "work"), Roots: []string{dir}})
	s, err := sftpserver.New(filepath.Join(dir, "root"), &sftpserver.Options{Users: map[string]string{user: password}})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	p.server = s
	go func() { p.served <- s.Serve(l) }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	n, _ := strconv.Atoi(port)
	p.connections = sftp.Map{"partner": {
		Host: "127.0.0.1", Port: n, Username: user, Password: password,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
	}}
	return p, nil
}

func (p *partner) close() error { return errors.Join(p.server.Close(), <-p.served) }

// handOver gives us a private key.
func (p *partner) handOver(name string) error { return p.ourKeys.Add(name, p.keys[name]) }

// put puts the archives of a day on the server, encrypted for a key.
func (p *partner) put(ctx context.Context, day, key string) error {
	for i := range perDay {
		name := fmt.Sprintf("invoices-%s-%d.zip", day, i+1)
		plain := filepath.Join(p.dir, "plain", name)
		if err := writeArchive(plain, day, i); err != nil {
			return err
		}
		_, err := p.engine.Run(ctx, courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "pgp.encrypt", Config: map[string]any{
			"source_path": plain, "output_path": filepath.Join(p.dir, "root", "outgoing", name+".pgp"), "recipient_key_ids": []string{key},
		}}}}, nil)
		if err != nil {
			return fmt.Errorf("prepare the partner's files: %w", err)
		}
	}
	return nil
}

// writeArchive writes a zip file with some invoices.
func writeArchive(path, day string, archive int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w := zip.NewWriter(f)
	for i := range perArchive {
		out, err := w.Create(fmt.Sprintf("invoice-%s-%d%d.csv", day, archive+1, i+1))
		if err != nil {
			return err
		}
		for line := range 40 {
			fmt.Fprintf(out, "%d,article %d,%d,%d.%02d\n", line, 1000*archive+line, 1+line%7, 10*line, line)
		}
	}
	return errors.Join(w.Close(), f.Sync())
}
