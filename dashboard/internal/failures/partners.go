package failures

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/sftp"
)

const (
	password = "opensesame-4711"
	token    = "initech-token-1999"
)

// partners are the servers of others: one SFTP server, which each partner has at its own address,
// and one web server.
type partners struct {
	files *sftpserver.Server
	ports map[string]int // of the SFTP server, by connection
	down  atomic.Bool    // the server of Globex closes each connection at once
	other string         // the fingerprint of a key that no server has

	web   *http.Server
	url   string // of the web server
	heard atomic.Int64

	served chan error // has the result of each call of a Serve
	serves int
}

var _ sftp.Connections = (*partners)(nil)

func openPartners(dir string) (_ *partners, err error) {
	p := &partners{ports: make(map[string]int), served: make(chan error, 8)}
	p.down.Store(true)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	p.other = ssh.FingerprintSHA256(key)
	if p.files, err = sftpserver.New(dir, &sftpserver.Options{Users: map[string]string{"courier": password}}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := deliver(dir); err != nil {
		return nil, err
	}
	for _, id := range []string{"acme", "acme-2026", "globex", "hooli", "depot"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		p.ports[id] = l.Addr().(*net.TCPAddr).Port
		if id == "globex" {
			l = &gate{l, &p.down}
		}
		p.serve(func() error { return p.files.Serve(l) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p.url = "http://" + l.Addr().String()
	p.web = &http.Server{Handler: p.sites(), ReadHeaderTimeout: 10 * time.Second}
	p.serve(func() error { return p.web.Serve(l) })
	return p, nil
}

func (p *partners) serve(f func() error) {
	p.serves++
	go func() { p.served <- f() }()
}

// A gate is a listener that closes each connection at once while it is down.
type gate struct {
	net.Listener
	down *atomic.Bool
}

func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil || !g.down.Load() {
			return c, err
		}
		c.Close()
	}
}

// deliver puts files on the SFTP server.
func deliver(dir string) error {
	files := map[string][]byte{
		"acme/orders.csv":   []byte("4711;12;bolts\n4712;3;nuts\n"),
		"globex/orders.csv": []byte("88;1;anvil\n"),
		"depot/notes.txt":   []byte("delivery note 1\ndelivery note 2\n"),
	}
	for i := range 5 {
		content, err := archive(i + 1)
		if err != nil {
			return err
		}
		if i == 2 {
			content = content[:len(content)/2]
		}
		files[fmt.Sprintf("hooli/prices-%d.zip", i+1)] = content
	}
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// archive returns an archive with a price list.
func archive(n int) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create(fmt.Sprintf("prices-%d.csv", n))
	if err == nil {
		_, err = fmt.Fprintf(f, "article;price\n%d;%d.90\n", 1000+n, n)
	}
	err = errors.Join(err, z.Close())
	return b.Bytes(), err
}

// sites are the portal of Initech and the receiver of accounting, which has moved.
func (p *partners) sites() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /initech/statement", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		fmt.Fprintln(w, "statement 2026-11: 1,204.50 EUR")
	})
	mux.HandleFunc("POST /hooks", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nobody listens here any more", http.StatusGone)
	})
	mux.HandleFunc("POST /accounting/events", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20)); err == nil {
			p.heard.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	})
	return mux
}

// Connection returns the connection to a partner. The connection to acme expects the key of a
// former server.
func (p *partners) Connection(_ context.Context, id string) (sftp.Connection, error) {
	port, ok := p.ports[id]
	if !ok {
		return sftp.Connection{}, courier.Errorf(courier.ErrNotFound, "there is no connection %q", id)
	}
	c := sftp.Connection{Host: "127.0.0.1", Port: port, Username: "courier", Password: "secret:sftp/password", ConnectTimeout: 5 * time.Second}
	c.HostKeys = []string{ssh.FingerprintSHA256(p.files.HostKey())}
	if id == "acme" {
		c.HostKeys = []string{p.other}
	}
	return c, nil
}

// connections returns the partners for the dashboard.
func (w *World) connections(context.Context) ([]dashboard.Connection, error) {
	list := []dashboard.Connection{
		{ID: "acme", Note: "Acme's old computing centre, until October 2026."},
		{ID: "acme-2026", Note: "Acme's new computing centre, since November 2026."},
		{ID: "globex", Note: "Hotline of their operators: day and night."},
		{ID: "hooli"},
		{ID: "depot", Owner: "Warehouse"},
	}
	for i := range list {
		c := &list[i]
		c.Type, c.Address = "sftp", fmt.Sprintf("127.0.0.1:%d", w.partners.ports[c.ID])
		if c.Owner == "" {
			c.Owner = "Integration"
		}
	}
	return list, nil
}

func (p *partners) call(who string) (string, error) {
	switch who {
	case "acme":
		return "We have moved to the new computing centre. The server there has the key " + ssh.FingerprintSHA256(p.files.HostKey()) + ". The old one is switched off; do not trust anything that answers for it.", nil
	case "globex":
		p.down.Store(false)
		return "Our server had stopped, thanks for telling us. It is up again.", nil
	case "hooli":
		return "One of our archives is broken, we see. We can't make it anew today; take the other four, we will send that one by mail.", nil
	case "initech":
		return "Our portal is up, and the token that you have is good. Nobody of you has asked us anything since yesterday.", nil
	case "accounting":
		return "Since we have moved, we take such messages at " + p.url + "/accounting/events, signed as ever.", nil
	}
	return "", fmt.Errorf("nobody is called %q; there are acme, globex, hooli, initech and accounting", who)
}

func (p *partners) close() error {
	err := p.files.Close()
	if p.web != nil {
		err = errors.Join(err, p.web.Close())
	}
	for range p.serves {
		if e := <-p.served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}
