package pgp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	openpgp "github.com/ProtonMail/go-crypto/openpgp/v2"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgptest"
	"github.com/courierhq/courier/steps/pgp"
)

// A bench is a workspace with keys, in which steps run as an engine runs them.
type bench struct {
	testing.TB
	dir     string
	keys    *pgp.Keyring
	secrets map[string]string
	reg     courier.Registry
	attempt int
	log     bytes.Buffer
	last    *courier.Context
	moved   []courier.Progress
	onMove  func() // called at each report of progress, if not nil
}

func newBench(t testing.TB) *bench {
	b := &bench{TB: t, dir: filepath.Join(t.TempDir(), "w"), keys: new(pgp.Keyring), secrets: map[string]string{}, attempt: 1}
	pgp.Register(&b.reg, b.keys)
	return b
}

// job is the context of the next attempt.
func (b *bench) job() *courier.Context {
	b.last = courier.NewContext(courier.ContextConfig{
		Execution: "0190", Job: "test", Step: 2, Attempt: b.attempt, Workspace: b.dir,
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			s, ok := b.secrets[q.Name]
			if !ok {
				return "", errors.New("the vault is shut")
			}
			return s, nil
		},
		Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		OnProgress: func(p courier.Progress) {
			b.moved = append(b.moved, p)
			if b.onMove != nil {
				b.onMove()
			}
		},
	})
	b.Cleanup(func() { b.last.Close() })
	return b.last
}

// run executes a step with a configuration as it stands in a definition.
func run[O any](ctx context.Context, b *bench, key string, cfg map[string]any) (O, error) {
	b.Helper()
	var out O
	typ, ok := b.reg.Lookup(key)
	if !ok {
		b.Fatalf("no step %s", key)
	}
	raw, err := typ.Execute(ctx, b.job(), mustJSON(b, cfg))
	if err != nil {
		return out, err
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		b.Fatal(err)
	}
	return out, nil
}

func (b *bench) encrypt(cfg map[string]any) (pgp.EncryptOutput, error) {
	b.Helper()
	return run[pgp.EncryptOutput](b.Context(), b, "pgp.encrypt", cfg)
}

func (b *bench) decrypt(cfg map[string]any) (pgp.DecryptOutput, error) {
	b.Helper()
	return run[pgp.DecryptOutput](b.Context(), b, "pgp.decrypt", cfg)
}

func (b *bench) validate(key string, cfg map[string]any) error {
	b.Helper()
	typ, _ := b.reg.Lookup(key)
	return typ.Validate(b.Context(), b.job(), mustJSON(b, cfg))
}

func (b *bench) cleanup(key string, cfg map[string]any) {
	b.Helper()
	typ, _ := b.reg.Lookup(key)
	if err := typ.Cleanup(b.Context(), b.job(), mustJSON(b, cfg)); err != nil {
		b.Fatalf("cleanup: %v", err)
	}
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (b *bench) write(name string, data []byte) {
	b.Helper()
	file := filepath.Join(b.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) read(name string) []byte {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// files lists all files in the workspace.
func (b *bench) files() []string {
	b.Helper()
	var names []string
	err := filepath.WalkDir(b.dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(b.dir, p)
			names = append(names, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return names
}

// wantFiles fails unless exactly these files are there.
func (b *bench) wantFiles(want ...string) {
	b.Helper()
	slices.Sort(want)
	if got := b.files(); !slices.Equal(got, want) {
		b.Errorf("files = %q, want %q", got, want)
	}
}

// key makes a key and adds it under a name.
func (b *bench) key(name string) *openpgp.Entity {
	b.Helper()
	return b.add(name, pgptest.NewEntity(b, name, nil))
}

func (b *bench) add(name string, e *openpgp.Entity) *openpgp.Entity {
	b.Helper()
	if err := b.keys.Add(name, pgp.Key{Data: pgptest.Private(b, e)}); err != nil {
		b.Fatal(err)
	}
	return e
}

// wantFailure fails unless err is permanent and says all of texts.
func wantFailure(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	if !courier.IsPermanent(err) {
		t.Errorf("error %q is not permanent", err)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error = %q, want %q in it", err, s)
		}
	}
}

func (b *bench) remove(name string) {
	b.Helper()
	if err := os.Remove(filepath.Join(b.dir, name)); err != nil {
		b.Error(err)
	}
}
