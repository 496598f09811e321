package steps_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store/storewrap"
)

// bigFile is how many bytes the file of TestTakeoverGoesOn has. It takes seven minutes.
const bigFile, bytesPerSecond = 64 << 20, bigFile / 400

// A link is the network of one host: it counts what passes, and ends with the host.
type link struct {
	dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	moved atomic.Int64
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (l *link) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errors.New("the host is dead")
	}
	c, err := l.dial(ctx, network, addr)
	if err == nil {
		l.conns = append(l.conns, c)
		c = &countedConn{c, l}
	}
	return c, err
}

func (l *link) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, c := range l.conns {
		c.Close()
	}
}

type countedConn struct {
	net.Conn
	l *link
}

func (c *countedConn) count(n int, err error) (int, error) {
	c.l.moved.Add(int64(n))
	return n, err
}

func (c *countedConn) Read(p []byte) (int, error)  { return c.count(c.Conn.Read(p)) }
func (c *countedConn) Write(p []byte) (int, error) { return c.count(c.Conn.Write(p)) }

// takeoverFamilies are the families whose transfers go on after a takeover. Each starts a
// server for dir, and returns how to register the family on a host with a link to it.
var takeoverFamilies = map[string]func(t *testing.T, dir string) (register func(*courier.Registry, *link)){
	"sftp": func(t *testing.T, dir string) func(*courier.Registry, *link) {
		s, err := sftpserver.New(dir, &sftpserver.Options{Users: map[string]string{"ada": "correct horse"}})
		if err != nil {
			t.Fatal(err)
		}
		l := memnet.Listen()
		l.SetLink(func(int) memnet.Link {
			return memnet.Link{Up: memnet.Flow{Rate: bytesPerSecond}, Down: memnet.Flow{Rate: bytesPerSecond}}
		})
		serve(t, func() error { return s.Serve(l) }, s.Close)
		return func(r *courier.Registry, host *link) {
			host.dial = l.DialContext
			sftp.Register(r, sftp.Map{"partner": {
				Host: "files.example.com", Username: "ada", Password: "correct horse",
				HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())}, Dial: host.DialContext,
			}})
		}
	},
	"ftp": func(t *testing.T, dir string) func(*courier.Registry, *link) {
		var n ftpserver.Network
		s, err := ftpserver.New(dir, &ftpserver.Options{Users: map[string]string{"ada": "correct horse"}, Listen: n.Listen})
		if err != nil {
			t.Fatal(err)
		}
		n.SetLink(func(int, int) memnet.Link {
			slow := memnet.Flow{Rate: bytesPerSecond, Buffer: 256 << 10}
			return memnet.Link{Up: slow, Down: slow}
		})
		l := n.Commands()
		serve(t, func() error { return s.Serve(l) }, s.Close)
		return func(r *courier.Registry, host *link) {
			host.dial = n.DialContext
			ftp.Register(r, ftp.Map{"partner": {
				Host: "files.example.com", Username: "ada", Password: "correct horse", Security: "none", Dial: host.DialContext,
			}})
		}
	},
}

func serve(t *testing.T, run, end func() error) {
	done := make(chan error, 1)
	go func() { done <- run() }()
	t.Cleanup(func() {
		if err := errors.Join(end(), <-done); err != nil {
			t.Errorf("server: %v", err)
		}
	})
}

// TestTakeoverGoesOn kills a worker at 83 % of a file. A worker on another host, with
// another workspace, goes on where the cursor says: with the part on the server, or with the
// one in a directory that both hosts share.
func TestTakeoverGoesOn(t *testing.T) {
	const size = bigFile
	content := bytes.Repeat([]byte("0123456789abcde\n"), size/16)
	for i := 0; i < size; i += 4 << 10 {
		copy(content[i:], fmt.Sprintf("%09d", i))
	}
	for family, start := range takeoverFamilies {
		for _, typ := range []string{"download", "upload"} {
			t.Run(family+"."+typ, func(t *testing.T) {
				couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
					served, shared := filepath.Join(t.TempDir(), "served"), h.Dir
					register := start(t, served)
					from, to, job := served, shared, `{"remote_path": "big.bin", "local_path": "SHARED/big.bin"}`
					if typ == "upload" {
						from, to, job = shared, served, `{"local_path": "SHARED/big.bin", "remote_path": "big.bin", "resume": true}`
					}
					if err := os.WriteFile(filepath.Join(from, "big.bin"), content, 0o644); err != nil {
						t.Fatal(err)
					}
					job = strings.Replace(job, "{", `{"connection_id": "partner", `, 1)
					definition := h.Job(`{"name": "move", "steps": [{"type": "` + family + "." + typ + `", "config": ` + strings.ReplaceAll(job, "SHARED", filepath.ToSlash(shared)) + `}]}`)

					host := func(name string) (*link, *engine.Engine, *atomic.Bool) {
						l, dead := new(link), new(atomic.Bool)
						var registry courier.Registry
						register(&registry, l)
						s := storewrap.Intercept(h.Store, func(c context.Context, _ *storewrap.Call, do func(context.Context) error) error {
							if dead.Load() {
								<-c.Done()
								return c.Err()
							}
							return do(c)
						})
						e := engine.New(s, &registry, &engine.Options{Worker: name, Workspace: t.TempDir(), WorkspaceID: name, Roots: []string{shared}})
						t.Cleanup(func() { _ = e.Stop(context.Background()) })
						return l, e, dead
					}
					one, first, dead := host("one")
					two, second, _ := host("two")
					if err := first.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					if _, err := first.Jobs().Define(t.Context(), definition, nil); err != nil {
						t.Fatal(err)
					}
					x, err := first.Enqueue(t.Context(), "move", nil)
					if err != nil {
						t.Fatal(err)
					}
					for {
						time.Sleep(100 * time.Millisecond)
						if x, err = second.Executions().Get(t.Context(), x.ID); err != nil || x.State != courier.Running {
							t.Fatal(x.State, err)
						}
						if p := x.Current; p != nil && p.Progress != nil && p.Progress.Done >= size*83/100 {
							break
						}
					}
					dead.Store(true)
					one.kill()
					time.Sleep(13 * time.Second) // what still ran there has ended
					if typ == "download" {
						rebooted(t, shared)
					}
					if err := second.Start(t.Context()); err != nil {
						t.Fatal(err)
					}
					if x, err = second.Wait(t.Context(), x.ID); err != nil {
						t.Fatal(err)
					}
					got, err := os.ReadFile(filepath.Join(to, "big.bin"))
					if err != nil || !bytes.Equal(got, content) {
						t.Fatalf("the content differs: %d bytes, %v", len(got), err)
					}
					share := float64(two.moved.Load()) / size * 100
					t.Logf("the next attempt has moved %.1f %% of the file", share)
					if share > 20 {
						t.Errorf("the next attempt has moved %.1f %% of the file", share)
					}
					for _, dir := range []string{served, shared} {
						list, err := os.ReadDir(dir)
						if err != nil {
							t.Fatal(err)
						}
						for _, d := range list {
							if d.Name() != "big.bin" {
								t.Errorf("%s is left", d.Name())
							}
						}
					}
				})
			})
		}
	}
}

// rebooted makes the notes beside the parts in dir those of another host.
func rebooted(t *testing.T, dir string) {
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(dir, "*.note"))
	if err != nil || len(notes) != 1 {
		t.Fatal(notes, err)
	}
	text, err := os.ReadFile(notes[0])
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`"boot":"[^"]*"`).ReplaceAll(text, []byte(`"boot":"that of another host"`))
	if bytes.Equal(other, text) {
		t.Fatalf("the note does not say which host wrote it: %s", text)
	}
	if err := os.WriteFile(notes[0], other, 0o600); err != nil {
		t.Fatal(err)
	}
}
