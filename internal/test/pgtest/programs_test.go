package pgtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// look makes the given patterns the only places where programs are looked for.
func look(t *testing.T, patterns ...string) {
	old := places
	t.Cleanup(func() { places = old })
	t.Setenv("PATH", t.TempDir())
	places = patterns
}

func TestMissing(t *testing.T) {
	look(t, filepath.Join(t.TempDir(), "*", "bin"))
	c, err := Open(nil)
	if err == nil {
		c.Close()
		t.Fatal("a server without programs")
	}
	if !strings.Contains(err.Error(), "apt-get install postgresql") {
		t.Errorf("the error does not name the package: %v", err)
	}
}

func TestNewest(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"9", "15", "16"} {
		bin := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"initdb", "postgres", "pg_basebackup"} {
			if version == "16" && name == "postgres" {
				continue
			}
			if err := os.WriteFile(filepath.Join(bin, name), nil, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	look(t, filepath.Join(dir, "*", "bin"))
	if got, err := programs(); err != nil || got != filepath.Join(dir, "15", "bin") {
		t.Errorf("programs in %s, %v, want those of 15, the newest that is complete", got, err)
	}
}
