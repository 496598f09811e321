package steps_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/confined"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

type object = map[string]any

const (
	user     = "ada"
	password = "correct horse"
)

// A world is a directory with all that the steps of all families work on, and
// servers that serve it, in this process and without sockets: an SFTP and an
// FTP server, an HTTP server and function app, and a keyring. Another process
// can go on in the same directory.
//
//	W      the workspace
//	B      a directory that steps may use besides
//	sftp   what the SFTP server serves
//	ftp    what the FTP server serves
//	http   what the HTTP server serves
//	keys   the private key "us"
type world struct {
	dir     string
	reg     courier.Registry
	options *steps.Options // with which reg was made
	sftp    *sftpserver.Server
	ftp     *ftpserver.Server
	ends    []func() error

	sconn sftp.Connection // called "sftp"
	fconn ftp.Connection  // called "ftp"
	// header may add to what the HTTP server answers, by the parameter n.
	header func(h http.Header, n string)
	// progress may watch the steps.
	progress func(p courier.Progress)
}

// newWorld opens a world in dir, in which it makes what is missing. The
// options say how its servers misbehave.
func newWorld(dir string, sopt sftpserver.Options, fopt ftpserver.Options) (*world, error) {
	w := &world{dir: dir}
	for _, name := range []string{"W", "B", "sftp", "ftp", "http", "keys"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return nil, err
		}
	}
	sconn, err := w.serveSFTP(sopt)
	if err != nil {
		return nil, err
	}
	fconn, err := w.serveFTP(fopt)
	if err != nil {
		return nil, err
	}
	keys, err := w.keys()
	if err != nil {
		return nil, err
	}
	w.sconn, w.fconn = sconn, fconn
	web := w.listen()
	lookup := func(context.Context, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
	}
	w.options = &steps.Options{
		Connections: sftp.Map{"sftp": sconn}, FTPConnections: ftp.Map{"ftp": fconn}, Keys: keys,
		HTTP: &httpreq.Options{AllowPlain: true, Lookup: lookup, Dial: web.DialContext},
		Exec: &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh", AllowEnv: []string{"TOKEN"}}}},
		Azure: &azure.Options{
			HTTP:        azure.HTTP{AllowPlain: true, Lookup: lookup, Dial: web.DialContext},
			Connections: azure.Map{"app": {URL: "http://app.example.com", FunctionKey: "function-key"}},
		},
		Depot: new(couriertest.Depot),
	}
	steps.Register(&w.reg, w.options)
	return w, nil
}

func (w *world) serveSFTP(opt sftpserver.Options) (sftp.Connection, error) {
	opt.Users = map[string]string{user: password}
	s, err := sftpserver.New(filepath.Join(w.dir, "sftp"), &opt)
	if err != nil {
		return sftp.Connection{}, err
	}
	net := memnet.Listen()
	w.sftp = s
	w.serve(func() error { return s.Serve(net) }, s.Close)
	return sftp.Connection{
		Host: "sftp.example.com", Username: user, Password: password, Dial: net.DialContext,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
	}, nil
}

func (w *world) serveFTP(opt ftpserver.Options) (ftp.Connection, error) {
	net := new(ftpserver.Network)
	opt.Users, opt.Listen, opt.TLS = map[string]string{user: password}, net.Listen, ftpserver.Config()
	s, err := ftpserver.New(filepath.Join(w.dir, "ftp"), &opt)
	if err != nil {
		return ftp.Connection{}, err
	}
	l := net.Commands()
	w.ftp = s
	w.serve(func() error { return s.Serve(l) }, s.Close)
	return ftp.Connection{
		Host: "files.example.com", Username: user, Password: password, Dial: net.DialContext,
		Authorities: ftpserver.ServerCertificate,
	}, nil
}

// serve runs a server until the world ends.
func (w *world) serve(run, stop func() error) {
	done := make(chan error, 1)
	go func() { done <- run() }()
	w.ends = append(w.ends, func() error { return errors.Join(stop(), <-done) })
}

// listen starts the HTTP server, to which all names lead.
func (w *world) listen() *memnet.Listener {
	mux := http.NewServeMux()
	files := http.StripPrefix("/files/", http.FileServer(http.Dir(filepath.Join(w.dir, "http"))))
	mux.HandleFunc("GET /files/", func(rw http.ResponseWriter, r *http.Request) {
		if w.header != nil {
			w.header(rw.Header(), r.URL.Query().Get("n"))
		}
		files.ServeHTTP(rw, r)
	})
	mux.HandleFunc("POST /api/{name}", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, `{"done": true}`) })
	net, s := memnet.Listen(), &http.Server{Handler: mux}
	w.serve(func() error {
		if err := s.Serve(net); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, s.Close)
	return net
}

// keys returns a keyring with the key "us", which every process in dir shares.
func (w *world) keys() (*pgp.Keyring, error) {
	name := filepath.Join(w.dir, "keys", "us")
	data, err := os.ReadFile(name)
	key := pgp.Key{Data: data}
	if errors.Is(err, fs.ErrNotExist) {
		if key, err = pgp.GenerateKey("us", "us@example.com"); err == nil {
			err = os.WriteFile(name, key.Data, 0o644)
		}
	}
	if err != nil {
		return nil, err
	}
	ring := new(pgp.Keyring)
	return ring, ring.Add("us", key)
}

func (w *world) close() error {
	var errs []error
	for _, end := range w.ends {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// An attempt of a step in a world.
type attempt struct {
	Dir    string
	Key    string
	Cfg    object
	Number int // from 1
	// DieAt ends the process when so many bytes have been moved; 0 means never.
	DieAt int64
}

// run executes a, as the engine would, and returns its outputs.
func (w *world) run(ctx context.Context, a attempt) (object, error) {
	typ, ok := w.reg.Lookup(a.Key)
	if !ok {
		return nil, fmt.Errorf("no step %s", a.Key)
	}
	job := courier.NewContext(courier.ContextConfig{
		Execution: "0198c0df-0000-7000-8000-000000000001", Type: a.Key, Step: 2, Attempt: a.Number,
		Workspace: filepath.Join(w.dir, "W"), Roots: []string{filepath.Join(w.dir, "B")}, Log: slog.New(slog.DiscardHandler),
		OnProgress: func(p courier.Progress) {
			if a.DieAt > 0 && p.Done >= a.DieAt {
				confined.Die()
			}
			if w.progress != nil {
				w.progress(p)
			}
		},
	})
	defer job.Close()
	cfg, err := json.Marshal(a.Cfg)
	if err != nil {
		return nil, err
	}
	if a.Number > 1 {
		if err := typ.Cleanup(ctx, job, cfg); err != nil {
			return nil, fmt.Errorf("cleanup: %w", err)
		}
	}
	raw, err := typ.Execute(ctx, job, cfg)
	if err != nil {
		return nil, err
	}
	var out object
	return out, json.Unmarshal(raw, &out)
}

// inWorld runs an attempt, in the process that confined.Run has started for it.
func inWorld(arg []byte) error {
	var a attempt
	if err := json.Unmarshal(arg, &a); err != nil {
		return err
	}
	w, err := newWorld(a.Dir, sftpserver.Options{}, ftpserver.Options{})
	if err != nil {
		return err
	}
	_, err = w.run(context.Background(), a)
	return errors.Join(err, w.close())
}

func TestMain(m *testing.M) {
	engine.RunIsolated(routeTypes)
	os.Exit(confined.Main(m, map[string]confined.Task{"attempt": inWorld, "memory": inMemory}))
}

// A site is a world for a test, with attempts that follow each other.
type site struct {
	*world
	testing.TB
	number int
}

// newSite makes a world with the given files, by their names below its
// directory, which others than root can get to.
func newSite(t testing.TB, files map[string]string) *site {
	t.Helper()
	s := newSiteWith(t, sftpserver.Options{}, ftpserver.Options{})
	for name, content := range files {
		s.write(name, content)
	}
	return s
}

// newSiteWith is newSite with servers that may misbehave.
func newSiteWith(t testing.TB, sopt sftpserver.Options, fopt ftpserver.Options) *site {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "world") // in memory, if possible
	made := []string{dir}
	if err != nil {
		dir = t.TempDir()
		made = []string{dir, filepath.Dir(dir)}
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for _, d := range made {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w, err := newWorld(dir, sopt, fopt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	return &site{world: w, TB: t}
}

func (s *site) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

func (s *site) write(name, content string) {
	s.Helper()
	file := s.path(name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(content), 0o644)); err != nil {
		s.Fatal(err)
	}
}

// read returns the content of a file, or the error.
func (s *site) read(name string) string {
	b, err := os.ReadFile(s.path(name))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// files lists the files in a directory of the world, at any depth.
func (s *site) files(dir string) []string {
	s.Helper()
	names := []string{}
	err := filepath.WalkDir(s.path(dir), func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, strings.TrimPrefix(p, s.path(dir)+"/"))
		}
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return names
}

// config is cfg with the place of B in it.
func (s *site) config(cfg object) object {
	full := object{}
	for k, v := range cfg {
		if text, ok := v.(string); ok {
			v = strings.ReplaceAll(text, "$B", s.path("B"))
		}
		full[k] = v
	}
	return full
}

// next runs the next attempt of a step here.
func (s *site) next(key string, cfg object) (object, error) {
	s.number++
	return s.run(s.Context(), attempt{Key: key, Cfg: s.config(cfg), Number: s.number})
}

// must is next, which has to succeed.
func (s *site) must(key string, cfg object) object {
	s.Helper()
	out, err := s.next(key, cfg)
	if err != nil {
		s.Fatalf("attempt %d: %v", s.number, err)
	}
	return out
}

// confined runs the next attempt in a process with limits, which dies when it
// has moved so many bytes, unless that is 0.
func (s *site) confined(l confined.Limits, key string, cfg object, dieAt int64) error {
	s.Helper()
	s.number++
	return confined.Run(s.TB, "attempt", l, attempt{Dir: s.dir, Key: key, Cfg: s.config(cfg), Number: s.number, DieAt: dieAt})
}

// noise returns n bytes that nothing compresses, the same ones every time.
func noise(n int) string {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return string(b)
}

// newListener is one on loopback, for what uses sockets.
func newListener() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }

// newKey returns a private key of nobody's.
func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
