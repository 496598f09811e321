package confined_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/confined"
	"github.com/courierhq/courier/internal/test/raced"
)

func TestMain(m *testing.M) {
	os.Exit(confined.Main(m, map[string]confined.Task{
		"write": func(arg []byte) error {
			var name string
			if err := json.Unmarshal(arg, &name); err != nil {
				return err
			}
			return os.WriteFile(name, make([]byte, 1000), 0o600)
		},
		"die": func([]byte) error { confined.Die(); return nil },
		"hold": func(arg []byte) error {
			var n int
			if err := json.Unmarshal(arg, &n); err != nil {
				return err
			}
			b := make([]byte, n)
			for i := range b {
				b[i] = 1
			}
			peak, err := confined.Peak()
			// The race detector keeps four bytes more for each.
			most := uint64(raced.Or(5*n, n)) + 64<<20
			if err == nil && (peak < uint64(n) || peak > most) {
				err = fmt.Errorf("with %d bytes, the peak is %d", n, peak)
			}
			runtime.KeepAlive(b)
			return err
		},
	}))
}

func TestMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		return
	}
	if err := confined.Run(t, "hold", confined.Limits{Memory: 1 << 30}, 100<<20); err != nil {
		t.Errorf("within the limit: %v", err)
	}
	if err := confined.Run(t, "hold", confined.Limits{Memory: 256 << 20}, 1<<30); !errors.Is(err, confined.ErrMemory) {
		t.Errorf("beyond the limit: %v", err)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "f")
	if err := confined.Run(t, "write", confined.Limits{}, name); err != nil {
		t.Error(err)
	}
	if err := confined.Run(t, "die", confined.Limits{}, nil); !errors.Is(err, confined.ErrKilled) {
		t.Errorf("a process that died: %v", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := confined.Run(t, "write", confined.Limits{FileSize: 100}, name); err == nil || !strings.Contains(err.Error(), "file too large") {
		t.Errorf("beyond the limit of 100 bytes: %v", err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != 100 {
		t.Errorf("it wrote %v, %v, want the 100 bytes that are allowed", info, err)
	}
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o755)
	if err := confined.Run(t, "write", confined.Limits{Nobody: true}, filepath.Join(dir, "g")); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("into a directory that can't be written to: %v", err)
	}
}
