package sftp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/memnet"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps/sftp"
)

const (
	user     = "ada"
	password = "correct horse"
	partner  = "partner" // the id of the connection
)

// A rig is a server on an in-memory network, a workspace, and what an engine
// would do with the steps.
type rig struct {
	*sftpserver.Server
	t      *testing.T
	net    *memnet.Listener
	remote string // directory that the server serves
	work   string // workspace
	conn   sftp.Connection
	reg    courier.Registry
	res    *courier.Resources
	log    logged

	attempt    int
	cancelled  bool // the execution
	mu         sync.Mutex
	reports    []courier.Progress
	onProgress func(courier.Progress) // may be nil
}

// newRig starts a server. A test in a bubble gets its own.
func newRig(t *testing.T, opt sftpserver.Options) *rig {
	t.Helper()
	r := &rig{t: t, remote: filepath.Join(t.TempDir(), "remote"), work: filepath.Join(t.TempDir(), "work"), attempt: 1}
	if opt.Users == nil {
		opt.Users = map[string]string{user: password}
	}
	s, err := sftpserver.New(r.remote, &opt)
	if err != nil {
		t.Fatal(err)
	}
	r.start(s)
	return r
}

// newHostile starts a server that answers as script says.
func newHostile(t *testing.T, script sftpserver.Script) *rig {
	t.Helper()
	r := &rig{t: t, work: filepath.Join(t.TempDir(), "work"), attempt: 1}
	s, err := sftpserver.NewHostile(script, &sftpserver.Options{Users: map[string]string{user: password}})
	if err != nil {
		t.Fatal(err)
	}
	r.start(s)
	return r
}

func (r *rig) start(s *sftpserver.Server) {
	r.Server, r.net, r.res = s, memnet.Listen(), &courier.Resources{}
	done := make(chan error, 1)
	go func() { done <- s.Serve(r.net) }()
	r.t.Cleanup(func() {
		r.res.Close()
		if err := errors.Join(s.Close(), <-done); err != nil {
			r.t.Errorf("server: %v", err)
		}
	})
	r.conn = sftp.Connection{
		Host: "files.example.com", Username: user, Password: password,
		HostKeys: []string{ssh.FingerprintSHA256(s.HostKey())},
		Dial:     r.net.DialContext,
	}
	sftp.Register(&r.reg, connections(func() sftp.Connection { return r.conn }))
}

// connections knows the one connection that the function returns.
type connections func() sftp.Connection

func (c connections) Connection(ctx context.Context, id string) (sftp.Connection, error) {
	return sftp.Map{partner: c()}.Connection(ctx, id)
}

// job returns the context of one attempt.
func (r *rig) job() *courier.Context {
	job := courier.NewContext(courier.ContextConfig{
		Execution: "0198c0de-0000-7000-8000-000000000001", Step: 3, Attempt: r.attempt,
		Workspace: r.work, Resources: r.res, Log: slog.New(&r.log), Cancelled: r.cancelled,
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			if q.Name == "acme" {
				return password, nil
			}
			return "", errors.New("no such secret")
		},
		OnProgress: func(p courier.Progress) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, p)
			if r.onProgress != nil {
				r.onProgress(p)
			}
		},
	})
	r.t.Cleanup(func() { job.Close() })
	return job
}

type object = map[string]any

func configOf(cfg object) []byte {
	full := object{"connection_id": partner}
	for k, v := range cfg {
		full[k] = v
	}
	text, err := json.Marshal(full)
	if err != nil {
		panic(err)
	}
	return text
}

// run executes a step as the attempt that r is at, and returns its outputs as
// they are stored.
func (r *rig) run(ctx context.Context, key string, cfg object) (object, error) {
	r.t.Helper()
	typ, ok := r.reg.Lookup(key)
	if !ok {
		r.t.Fatalf("no step %s", key)
	}
	job := r.job()
	defer job.Close()
	raw, err := typ.Execute(ctx, job, configOf(cfg))
	if err != nil {
		return nil, err
	}
	var out object
	if err := json.Unmarshal(raw, &out); err != nil {
		r.t.Fatal(err)
	}
	return out, nil
}

// retry is run after the Cleanup of the next attempt.
func (r *rig) retry(ctx context.Context, key string, cfg object) (object, error) {
	r.t.Helper()
	r.attempt++
	if err := r.cleanup(ctx, key, cfg); err != nil {
		return nil, err
	}
	return r.run(ctx, key, cfg)
}

func (r *rig) cleanup(ctx context.Context, key string, cfg object) error {
	typ, _ := r.reg.Lookup(key)
	job := r.job()
	defer job.Close()
	return typ.Cleanup(ctx, job, configOf(cfg))
}

// cancel rolls a step back as an engine does when the execution is cancelled.
func (r *rig) cancel(key string, cfg object) error {
	typ, _ := r.reg.Lookup(key)
	r.cancelled = true
	defer func() { r.cancelled = false }()
	job := r.job()
	defer job.Close()
	return typ.Rollback(r.t.Context(), job, configOf(cfg))
}

func (r *rig) validate(ctx context.Context, key string, cfg object) error {
	typ, _ := r.reg.Lookup(key)
	job := r.job()
	defer job.Close()
	return typ.Validate(ctx, job, configOf(cfg))
}

// must fails the test unless a step succeeded.
func (r *rig) must(out object, err error) object {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

// put and get write and read a file past the server; putLocal and getLocal in
// the workspace.
func (r *rig) put(name string, content []byte) { r.t.Helper(); write(r.t, r.remote, name, content) }
func (r *rig) get(name string) string          { return read(r.remote, name) }
func (r *rig) putLocal(name string, content []byte) {
	r.t.Helper()
	write(r.t, r.work, name, content)
}
func (r *rig) getLocal(name any) string { s, _ := name.(string); return read(r.work, s) }

func write(t testing.TB, dir, name string, content []byte) {
	if t != nil {
		t.Helper()
	}
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)); err != nil && t != nil {
		t.Fatal(err)
	}
}

func read(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// tree lists the files below dir, with slashes.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	files := []string{}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			files = append(files, filepath.ToSlash(rel))
		}
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// wantTree compares the files below dir with the given ones.
func wantTree(t testing.TB, dir string, want ...string) {
	t.Helper()
	got := tree(t, dir)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
}

var contents sync.Map // by size

// content returns n bytes that repeat nowhere. The caller must not change them.
func content(n int) []byte {
	if b, ok := contents.Load(n); ok {
		return b.([]byte)
	}
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	contents.Store(n, b)
	return b
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// wantError fails unless err has all of the texts and is as permanent as it
// should be.
func wantError(t *testing.T, err error, permanent bool, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one with %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error is\n\t%v\nwant one with %q", err, text)
		}
	}
	if courier.IsPermanent(err) != permanent {
		t.Errorf("permanent is %v, want %v: %v", !permanent, permanent, err)
	}
	if strings.Contains(err.Error(), password) {
		t.Errorf("the error contains the password: %v", err)
	}
	if strings.ContainsAny(err.Error(), "\x00\x1b\r\x7f") {
		t.Errorf("the error contains control characters: %q", err)
	}
}

// failing returns a hook that fails operations with method, on path unless that
// is empty.
func failing(method, path string, err error) func(sftpserver.Op) error {
	return func(o sftpserver.Op) error {
		if o.Method == method && (path == "" || o.Path == path) {
			return err
		}
		return nil
	}
}

// logged collects log records as text.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Enabled(context.Context, slog.Level) bool { return true }
func (l *logged) WithAttrs(a []slog.Attr) slog.Handler     { return l }
func (l *logged) WithGroup(string) slog.Handler            { return l }
func (l *logged) Handle(ctx context.Context, rec slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slog.NewTextHandler(&l.text, nil).Handle(ctx, rec)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newSigner(t testing.TB) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// within fails unless f returns within d.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("it took %v, want at most %v", took, d)
	}
}

// mustPEM returns a new private key.
func mustPEM(t testing.TB) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(block)
}

func remove(dir, name string) { os.Remove(filepath.Join(dir, filepath.FromSlash(name))) }

func chtimes(name string, at time.Time) { os.Chtimes(name, at, at) }
