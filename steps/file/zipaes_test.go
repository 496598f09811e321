package file_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/courierhq/courier/steps/file"
)

const password = "p4ss word & <canary>" // 7-Zip takes only ASCII for zip

// command runs a program and returns what it says.
func command(t testing.TB, dir, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is command with a program that must succeed.
func must(t testing.TB, dir, name string, args ...string) string {
	t.Helper()
	out, err := command(t, dir, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// same compares files in two directories.
func (s *site) same(t testing.TB, want map[string]string, from, dir string) {
	t.Helper()
	for name, content := range want {
		if rest, ok := strings.CutPrefix(name, from+"/"); ok {
			if got := s.read(t, dir+"/"+rest); got != content {
				t.Errorf("%s has %d bytes, other than the %d that were packed", dir+"/"+rest, len(got), len(content))
			}
		}
	}
}

// packable are files of all kinds.
func packable() map[string]string {
	return map[string]string{"A/in/1": "one", "A/in/2": medium(), "A/in/empty": "", "A/in/x/rand": random(1 << 20), "A/in/x/äöü ß 日本": strings.Repeat("long ", 1<<16), "A/in/x/mib": hexText(1 << 20)}
}

func TestZipPassword(t *testing.T) {
	s := newSite(t)
	files := packable()
	s.write(t, files)
	out := s.run(t, "file.zip", m{"source_path": "A/in", "output_path": "B/out.zip", "password": password})
	equal(t, out, "entry_count", 6)
	if b := s.read(t, "B/out.zip"); strings.Contains(b, medium()[:100]) || strings.Contains(b, password) {
		t.Error("the archive holds what it should hide")
	}
	s.run(t, "file.unzip", m{"archive_path": "B/out.zip", "output_directory": "B/back", "password": password})
	s.same(t, files, "A", "B/back")
	list := must(t, s.B, "7zz", "l", "-slt", "out.zip")
	if !strings.Contains(list, "Method = AES-256 Deflate") && !strings.Contains(list, "AES-256") {
		t.Errorf("7-Zip says\n%s", list)
	}
	must(t, s.B, "7zz", "x", "-p"+password, "-oby7z", "out.zip")
	s.same(t, files, "A", "B/by7z")
	if said, err := command(t, s.B, "7zz", "t", "-pwrong", "out.zip"); err == nil {
		t.Errorf("7-Zip takes a wrong password: %s", said)
	}
	s.refuse(t, "file.unzip", m{"archive_path": "B/out.zip", "output_directory": "B/no", "password": "wrong"}, "!the password is wrong", `entry "in/1"`)
	s.refuse(t, "file.unzip", m{"archive_path": "B/out.zip", "output_directory": "B/no"}, "!is encrypted; give its password")
	_, err := s.execute(t.Context(), registry(file.Limits{}), "file.unzip", m{"archive_path": "B/out.zip", "output_directory": "B/no", "password": password + "x"})
	if err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("error %v, want one without the password", err)
	}
}

// What 7-Zip encrypts, file.unzip unpacks, in all strengths.
func TestUnzip7Zip(t *testing.T) {
	for _, c := range []struct{ method, level string }{{"AES256", "5"}, {"AES192", "1"}, {"AES128", "1"}, {"AES256", "0"}} {
		t.Run(c.method+" "+c.level, func(t *testing.T) {
			s := newSite(t)
			files := packable()
			s.write(t, files)
			must(t, s.A, "7zz", "a", "-tzip", "-mem="+c.method, "-mx="+c.level, "-p"+password, "../b/x.zip", "in")
			s.run(t, "file.unzip", m{"archive_path": "B/x.zip", "output_directory": "B/back", "password": password})
			s.same(t, files, "A", "B/back")
		})
	}
	s := newSite(t)
	s.write(t, map[string]string{"A/in/1": medium()})
	must(t, s.A, "7zz", "a", "-tzip", "-mem=ZipCrypto", "-p"+password, "../b/x.zip", "in")
	cfg := m{"archive_path": "B/x.zip", "output_directory": "B/back", "password": password}
	s.refuse(t, "file.unzip", cfg, "!ZipCrypto", "AES-256")
	must(t, s.A, "7zz", "a", "-tzip", "../b/plain.zip", "in")
	cfg["archive_path"] = "B/plain.zip"
	s.refuse(t, "file.unzip", cfg, "!is not encrypted, though there is a password")
}

// Whatever bit of an encrypted entry is changed, nothing is unpacked.
func TestZipPasswordTampered(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": strings.Repeat("text ", 20)})
	s.run(t, "file.zip", m{"source_path": "A/f", "output_path": "B/x.zip", "password": password})
	whole := []byte(s.read(t, "B/x.zip"))
	end := bytes.LastIndex(whole, []byte("PK\x01\x02"))
	start := 30 + 1 + 11 + 9
	for i := start; i < end-16; i++ {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		if err := os.WriteFile(s.path("B/y.zip"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.execute(t.Context(), registry(file.Limits{}), "file.unzip", m{"archive_path": "B/y.zip", "output_directory": "B/back", "password": password}); err == nil {
			t.Fatalf("byte %d of %d is wrong, and nobody says so", i, len(b))
		}
		if s.read(t, "B/back/f") != "-" {
			t.Fatalf("byte %d: the file was published", i)
		}
	}
}
