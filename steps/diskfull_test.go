package steps_test

import (
	"os"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/confined"
)

// A writing is a step that writes a file, other than those of the file family,
// which steps/file tests in the same way.
type writing struct {
	name, key string
	cfg       object
	limit     uint64 // size at which a file can't grow any more
	dir       string // where the file goes
	file      string // its name there
	content   string // of it; empty means that it differs from run to run
	// far says that a server writes the file, which tells not much about why
	// that failed.
	far bool
}

// writings are all steps that write files, and their ways to do it.
func writings(large string) []writing {
	const limit = 100 << 10
	return []writing{
		{"sftp.download", "sftp.download", object{"connection_id": "sftp", "remote_path": "f", "local_path": "$B/f"}, limit, "B", "f", large, false},
		{"sftp.download, resumable", "sftp.download", object{"connection_id": "sftp", "remote_path": "f", "local_path": "$B/f", "resume": true}, limit, "B", "f", large, false},
		{"sftp.upload", "sftp.upload", object{"connection_id": "sftp", "local_path": "f", "remote_path": "up/f"}, limit, "sftp/up", "f", large, true},
		{"ftp.download", "ftp.download", object{"connection_id": "ftp", "remote_path": "f", "local_path": "$B/f"}, limit, "B", "f", large, false},
		{"ftp.download, resumable", "ftp.download", object{"connection_id": "ftp", "remote_path": "f", "local_path": "$B/f", "resume": true}, limit, "B", "f", large, false},
		{"ftp.upload", "ftp.upload", object{"connection_id": "ftp", "local_path": "f", "remote_path": "up/f"}, limit, "ftp/up", "f", large, true},
		{"http.request", "http.request", object{"url": "http://web.example.com/files/f", "output_path": "$B/f"}, limit, "B", "f", large, false},
		{"http.request, resumable", "http.request", object{"url": "http://web.example.com/files/f", "output_path": "$B/f", "resume": true}, limit, "B", "f", large, false},
		{"pgp.encrypt", "pgp.encrypt", object{"source_path": "f", "output_path": "$B/f", "recipient_key_ids": []string{"us"}}, limit, "B", "f", "", false},
		{"pgp.encrypt, armored", "pgp.encrypt", object{"source_path": "f", "output_path": "$B/f", "recipient_key_ids": []string{"us"}, "output_format": "armored"}, limit, "B", "f", "", false},
		{"pgp.decrypt", "pgp.decrypt", object{"source_path": "f.pgp", "output_path": "$B/f"}, limit, "B", "f", large, false},
		{"pgp.sign", "pgp.sign", object{"source_path": "f", "output_path": "$B/f", "signing_key_id": "us"}, 50, "B", "f", "", false},
		{"pgp.sign, inline", "pgp.sign", object{"source_path": "f", "output_path": "$B/f", "signing_key_id": "us", "signature_type": "inline"}, limit, "B", "f", "", false},
		{"pgp.verify", "pgp.verify", object{"source_path": "f.signed", "output_path": "$B/f"}, limit, "B", "f", large, false},
		{"exec.run", "exec.run", object{"program": "sh", "args": []string{"-c", "yes | head -c 300000"}, "stdout_path": "$B/f"}, limit, "B", "f", strings.Repeat("y\n", 150_000), false},
	}
}

// site makes the world that a writing needs.
func (w *writing) site(t *testing.T, large string) *site {
	t.Helper()
	s := newSite(t, map[string]string{"W/f": large, "sftp/f": large, "ftp/f": large, "http/f": large})
	for _, dir := range []string{"sftp/up", "ftp/up"} {
		if err := os.Mkdir(s.path(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	switch w.key {
	case "pgp.decrypt":
		s.must("pgp.encrypt", object{"source_path": "f", "output_path": "f.pgp", "recipient_key_ids": []string{"us"}})
	case "pgp.verify":
		s.must("pgp.sign", object{"source_path": "f", "output_path": "f.signed", "signing_key_id": "us", "signature_type": "inline"})
	}
	for _, name := range s.files("W") {
		if err := os.Chmod(s.path("W/"+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// fails is an attempt that must fail with word in its error, and show nothing
// under the final name.
func (w *writing) fails(t *testing.T, s *site, word string, l confined.Limits) {
	t.Helper()
	err := s.confined(l, w.key, w.cfg, 0)
	if err == nil || !w.far && (!strings.Contains(err.Error(), word) || !strings.Contains(err.Error(), s.path("B/f"))) {
		t.Errorf("the error is %v, want one with %q and the place", err, word)
	}
	for _, name := range s.files(w.dir) {
		if !strings.Contains(name, ".courier-tmp") {
			t.Errorf("%s is there", name)
		}
	}
}

// repeated is the attempt after it, which must succeed and leave nothing else.
func (w *writing) repeated(t *testing.T, s *site) {
	t.Helper()
	s.must(w.key, w.cfg)
	if got := s.files(w.dir); len(got) != 1 || got[0] != w.file {
		t.Errorf("there are %q, want %q", got, w.file)
	}
	if got := s.read(w.dir + "/" + w.file); w.content != "" && got != w.content || len(got) == 0 {
		t.Errorf("it has %d bytes, want %d", len(got), len(w.content))
	}
}

// A disk that is full in the middle leaves nothing under the final name, and
// the step can be repeated when there is room.
func TestDiskFull(t *testing.T) {
	large := noise(300_000)
	for _, w := range writings(large) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.site(t, large)
			w.fails(t, s, "file too large", confined.Limits{FileSize: w.limit})
			w.repeated(t, s)
		})
	}
}

// A target that can't be written to is named in the error, and the step can be
// repeated when it can.
func TestReadOnly(t *testing.T) {
	large := noise(300_000)
	for _, w := range writings(large) {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := w.site(t, large)
			for name, mode := range map[string]os.FileMode{"W": 0o777, w.dir: 0o555} {
				if err := os.Chmod(s.path(name), mode); err != nil {
					t.Fatal(err)
				}
			}
			w.fails(t, s, "permission denied", confined.Limits{Nobody: true})
			if err := os.Chmod(s.path(w.dir), 0o755); err != nil {
				t.Fatal(err)
			}
			w.repeated(t, s)
		})
	}
}

// No type that writes is forgotten: one with a file among its outputs is
// tested here, or in steps/file.
func TestWritersAreTested(t *testing.T) {
	tested := make(map[string]bool)
	for _, w := range writings("") {
		tested[w.key] = true
	}
	reg := registry()
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		if family, _, _ := strings.Cut(key, "."); typ.Key() != key || family == "file" || tested[key] {
			continue
		}
		for _, p := range typ.Config().Properties {
			if p.Name == "output_path" || p.Name == "stdout_path" || p.Name == "local_path" {
				t.Errorf("%s has %s, and is not among writings", key, p.Name)
			}
		}
	}
}
