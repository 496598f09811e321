package reload_test

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/internal/reload"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// words reads a file, of which "bad" can't be used.
func words(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && string(b) == "bad" {
		err = errors.New("malformed")
	}
	return string(b), err
}

func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "a")
		write(t, path, "one")
		var log bytes.Buffer
		s, err := reload.New(path, slog.New(slog.NewTextHandler(&log, nil)), words)
		if err != nil {
			t.Fatal(err)
		}
		steps := []struct{ text, want, logged string }{
			{"three", "three", ""},
			{"bad", "three", "malformed"},
			{"seven", "seven", ""},
		}
		for _, step := range steps {
			write(t, path, step.text)
			log.Reset()
			time.Sleep(2 * time.Second)
			for range 3 {
				if got := s.Get(); got != step.want {
					t.Errorf("after %q: %q, want %q", step.text, got, step.want)
				}
				time.Sleep(2 * time.Second)
			}
			if n := strings.Count(log.String(), "malformed"); (n == 1) != (step.logged != "") {
				t.Errorf("after %q: logged %q", step.text, log.String())
			}
		}
		write(t, path, "eleven")
		if err := s.Reload(); err != nil || s.Get() != "eleven" {
			t.Errorf("Reload: %v, %q", err, s.Get())
		}
	})
}

func TestDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, reads := t.TempDir(), 0
		write(t, filepath.Join(dir, "a"), "1")
		s, err := reload.New(dir, nil, func(string) (int, error) { reads++; return reads, nil })
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(2 * time.Second)
			s.Get()
		}
		if reads != 1 {
			t.Errorf("read %d times without a change", reads)
		}
		write(t, filepath.Join(dir, "b"), "2")
		time.Sleep(2 * time.Second)
		if s.Get(); reads != 2 {
			t.Errorf("read %d times after a file was added", reads)
		}
	})
}

func TestMissing(t *testing.T) {
	if _, err := reload.New(filepath.Join(t.TempDir(), "none"), nil, words); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
