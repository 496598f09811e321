package steps_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// TestFilesAreReloaded: connections and keys in files follow the files.
func TestFilesAreReloaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			return path
		}
		const old, new = `{"acme": {"host": "old.example", "username": "u", "password": "secret:p", "host_keys": ["SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]}}`,
			`{"acme": {"host": "new.example", "username": "u", "password": "secret:p", "host_keys": ["SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"]}}`
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		s, err := sftp.OpenConnections(write("sftp.json", old), logger)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ftp.OpenConnections(write("ftp.json", `{"acme": {"host": "old.example"}}`), logger)
		if err != nil {
			t.Fatal(err)
		}
		write("sftp.json", new)
		write("ftp.json", `{"acme": {"host": "new.example"}}`)
		if c, err := s.Connection(t.Context(), "acme"); err != nil || c.Host != "new.example" {
			t.Errorf("sftp: %v, %v", c, err)
		}
		if c, err := f.Connection(t.Context(), "acme"); err != nil || c.Host != "new.example" {
			t.Errorf("ftp: %v, %v", c, err)
		}
		write("sftp.json", `{"acme": {"hots": "new.example"}}`)
		if c, err := s.Connection(t.Context(), "acme"); err != nil || c.Host != "new.example" || !strings.Contains(log.String(), "hots") {
			t.Errorf("sftp with a mistake: %v, %v, log %s", c, err, &log)
		}
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "hots") {
			t.Errorf("Reload of a mistake: %v", err)
		}

		first, err := pgp.GenerateKey("First", "first@example.com")
		if err != nil {
			t.Fatal(err)
		}
		write("keys/first.key", string(first.Data))
		keys, err := pgp.OpenKeyring(filepath.Join(dir, "keys"), nil, logger)
		if err != nil {
			t.Fatal(err)
		}
		second, err := pgp.GenerateKey("Second", "second@example.com")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := keys.Key(t.Context(), "second"); err == nil {
			t.Error("a key that is not there was found")
		}
		write("keys/second.key", string(second.Data))
		if _, err := keys.Key(t.Context(), "second"); err != nil {
			t.Error(err)
		}
	})
}
