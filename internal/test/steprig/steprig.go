// Package steprig does for tests what an engine does with steps that move files to and from
// a server: it makes the contexts of their attempts, and keeps what they report.
package steprig

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
)

// What the steps log in with.
const (
	User     = "ada"
	Password = "correct horse" // also the secret acme
	Partner  = "partner"       // the id of the connection
)

// A Rig is a workspace and a directory that a server serves, and what an engine keeps while
// it executes steps.
type Rig struct {
	T         testing.TB
	Remote    string // directory that the server serves
	Work      string // workspace
	Registry  courier.Registry
	Resources *courier.Resources // closed by the test
	Log       lockedbuffer.Buffer

	Attempt    int                    // of the step
	Cancelled  bool                   // the execution
	OnProgress func(courier.Progress) // may be nil

	mu      sync.Mutex
	reports []courier.Progress
}

// Job returns the context of one attempt.
func (r *Rig) Job() *courier.Context {
	job := courier.NewContext(courier.ContextConfig{
		Execution: "0198c0de-0000-7000-8000-000000000001", Step: 3, Attempt: r.Attempt,
		Workspace: r.Work, Resources: r.Resources, Cancelled: r.Cancelled, Log: slog.New(slog.NewTextHandler(&r.Log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			if q.Name == "acme" {
				return Password, nil
			}
			return "", errors.New("no such secret")
		},
		OnProgress: func(p courier.Progress) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, p)
			if r.OnProgress != nil {
				r.OnProgress(p)
			}
		},
	})
	r.T.Cleanup(func() { job.Close() })
	return job
}

// Reports returns what the attempts have reported since the last call of ForgetReports.
func (r *Rig) Reports() []courier.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reports)
}

// ForgetReports forgets what was reported.
func (r *Rig) ForgetReports() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = nil
}

// An Object is a configuration or the outputs of a step.
type Object = map[string]any

// ConfigOf returns the JSON text of a configuration, with the connection unless it has one.
func ConfigOf(cfg Object) []byte {
	full := Object{"connection_id": Partner}
	for k, v := range cfg {
		full[k] = v
	}
	text, err := json.Marshal(full)
	if err != nil {
		panic(err)
	}
	return text
}

// Run executes a step as the attempt that r is at, and returns its outputs as they are
// stored.
func (r *Rig) Run(ctx context.Context, key string, cfg Object) (Object, error) {
	r.T.Helper()
	typ, ok := r.Registry.Lookup(key)
	if !ok {
		r.T.Fatalf("no step %s", key)
	}
	job := r.Job()
	defer job.Close()
	raw, err := typ.Execute(ctx, job, ConfigOf(cfg))
	if err != nil {
		return nil, err
	}
	var out Object
	if err := json.Unmarshal(raw, &out); err != nil {
		r.T.Fatal(err)
	}
	return out, nil
}

// Retry is Run after the Cleanup of the next attempt.
func (r *Rig) Retry(ctx context.Context, key string, cfg Object) (Object, error) {
	r.T.Helper()
	r.Attempt++
	if err := r.Cleanup(ctx, key, cfg); err != nil {
		return nil, err
	}
	return r.Run(ctx, key, cfg)
}

// Cleanup cleans up after a step.
func (r *Rig) Cleanup(ctx context.Context, key string, cfg Object) error {
	typ, _ := r.Registry.Lookup(key)
	job := r.Job()
	defer job.Close()
	return typ.Cleanup(ctx, job, ConfigOf(cfg))
}

// Cancel rolls a step back as an engine does when the execution is cancelled.
func (r *Rig) Cancel(key string, cfg Object) error {
	typ, _ := r.Registry.Lookup(key)
	r.Cancelled = true
	defer func() { r.Cancelled = false }()
	job := r.Job()
	defer job.Close()
	return typ.Rollback(r.T.Context(), job, ConfigOf(cfg))
}

// Validate does a dry run of a step.
func (r *Rig) Validate(ctx context.Context, key string, cfg Object) error {
	typ, _ := r.Registry.Lookup(key)
	job := r.Job()
	defer job.Close()
	return typ.Validate(ctx, job, ConfigOf(cfg))
}

// Must fails the test unless a step succeeded.
func (r *Rig) Must(out Object, err error) Object {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
	return out
}

// Put and Get write and read a file past the server; PutLocal and GetLocal in the workspace.
func (r *Rig) Put(name string, content []byte) { r.T.Helper(); Write(r.T, r.Remote, name, content) }

// Get is described at Put.
func (r *Rig) Get(name string) string { return Read(r.Remote, name) }

// PutLocal is described at Put.
func (r *Rig) PutLocal(name string, content []byte) { r.T.Helper(); Write(r.T, r.Work, name, content) }

// GetLocal is described at Put. The name may be an output.
func (r *Rig) GetLocal(name any) string { s, _ := name.(string); return Read(r.Work, s) }

// Write writes a file below dir, and makes the directories above it.
func Write(t testing.TB, dir, name string, content []byte) {
	t.Helper()
	name = filepath.Join(dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, 0o600)); err != nil {
		t.Fatal(err)
	}
}

// Read returns the content of a file below dir, or why it can't be read.
func Read(dir, name string) string {
	b, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Tree lists the files below dir, with slashes.
func Tree(t testing.TB, dir string) []string {
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

// WantTree compares the files below dir with the given ones.
func WantTree(t testing.TB, dir string, want ...string) {
	t.Helper()
	got := Tree(t, dir)
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("files are %q, want %q", got, want)
	}
}

var contents sync.Map // by size

// Content returns n bytes that repeat nowhere. The caller must not change them.
func Content(n int) []byte {
	if b, ok := contents.Load(n); ok {
		return b.([]byte)
	}
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(b)
	contents.Store(n, b)
	return b
}

// WantError fails unless err has all of the texts and is as permanent as it should be.
func WantError(t testing.TB, err error, permanent bool, texts ...string) {
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
	if strings.Contains(err.Error(), Password) {
		t.Errorf("the error contains the password: %v", err)
	}
	if strings.ContainsAny(err.Error(), "\x00\x1b\r\x7f") {
		t.Errorf("the error contains control characters: %q", err)
	}
}

// Within fails unless f returns within d.
func Within(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	start := time.Now()
	f()
	if took := time.Since(start); took > d {
		t.Errorf("it took %v, want at most %v", took, d)
	}
}
