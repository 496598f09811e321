package steps_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/confined"
	"github.com/courierhq/courier/internal/test/raced"
)

// The tests in this file have a subtest for each rule about repetition. In each, a
// process is killed in the middle of the step, the next attempt goes on, and then one more
// comes, as when the first one's reply was lost. The old target stays until the new one is
// complete. A download goes on where it stopped, and begins anew if the source has become
// smaller. What a completed unpacking extracted is not wiped, because it may be in use. A
// new file under the name of one that was moved or deleted stays.

var (
	largeSize = raced.Or(3<<20, 6<<20)
	middle    = int64(1 << 20)
)

// killed runs an attempt that dies in the middle.
func (s *site) killed(key string, cfg object) {
	s.Helper()
	if err := s.confined(confined.Limits{}, key, cfg, middle); !errors.Is(err, confined.ErrKilled) {
		s.Fatalf("the process that should have died ended with %v", err)
	}
}

// has compares a file, and what else is in its directory.
func (s *site) has(dir, name, content string) {
	s.Helper()
	if got := s.read(dir + "/" + name); got != content {
		s.Errorf("%s has %d bytes, %.20q, want %d", name, len(got), got, len(content))
	}
	if got := s.files(dir); !slices.Equal(got, []string{name}) {
		s.Errorf("%s has %q, want %s alone", dir, got, name)
	}
}

// left fails unless something unfinished is in a directory, or nothing is shown
// by its being tidied up.
func (s *site) left(dir string) {
	s.Helper()
	if !slices.ContainsFunc(s.files(dir), func(name string) bool { return strings.Contains(name, ".courier-tmp") }) {
		s.Errorf("nothing unfinished is in %s: %q", dir, s.files(dir))
	}
}

func TestIdempotency(t *testing.T) {
	rows := map[string]func(t *testing.T){
		"sftp.upload": func(t *testing.T) { overwritesRemotely(t, "sftp.upload", "sftp") },
		"ftp.upload":  func(t *testing.T) { overwritesRemotely(t, "ftp.upload", "ftp") },
		"sftp.download": func(t *testing.T) {
			resumes(t, "sftp.download", "sftp", nil)
		},
		"ftp.download": func(t *testing.T) { resumes(t, "ftp.download", "ftp", nil) },
		"pgp.encrypt":  encryptsAgain,
		"pgp.decrypt": func(t *testing.T) {
			s := newSite(t, map[string]string{"W/f": noise(largeSize)})
			s.must("pgp.encrypt", object{"source_path": "f", "output_path": "f.pgp", "recipient_key_ids": []string{"us"}})
			overwritesLocally(t, s, "pgp.decrypt", object{"source_path": "f.pgp", "output_path": "$B/g"}, noise(largeSize))
		},
		"file.zip":    zipsAgain,
		"file.unzip":  unpacksAgain,
		"file.rename": renamesOnce,
		"file.copy": func(t *testing.T) {
			s := newSite(t, map[string]string{"W/f": noise(largeSize)})
			overwritesLocally(t, s, "file.copy", object{"source_path": "f", "destination_path": "$B/g"}, noise(largeSize))
		},
		"file.delete": deletesOnce,
	}
	for row, test := range rows {
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// "Overwrite": the side file of a killed attempt is removed, and the final name
// shows the old file or the new one.
func overwritesRemotely(t *testing.T, key, server string) {
	s := newSite(t, map[string]string{"W/f": noise(largeSize), server + "/up/f": "old"})
	cfg := object{"connection_id": server, "local_path": "f", "remote_path": "up/f"}
	s.killed(key, cfg)
	s.left(server + "/up")
	if got := s.read(server + "/up/f"); got != "old" {
		t.Errorf("a killed attempt left %d bytes under the final name", len(got))
	}
	for range 2 {
		s.must(key, cfg)
		s.has(server+"/up", "f", noise(largeSize))
	}
	s.write("W/f", "another")
	s.must(key, cfg)
	s.has(server+"/up", "f", "another")
}

// "Resume": what a killed attempt has is not sent again; a file that is complete
// is not touched; one that is larger than the source begins anew.
func resumes(t *testing.T, key, server string, more object) {
	s := newSite(t, map[string]string{server + "/f": noise(largeSize)})
	cfg := object{"connection_id": server, "remote_path": "f", "local_path": "$B/g"}
	for k, v := range more {
		cfg[k] = v
	}
	s.killed(key, cfg)
	s.left("B")
	s.must(key, cfg)
	s.has("B", "g", noise(largeSize))
	if !s.resumed(server) {
		t.Error("the next attempt began at the beginning")
	}

	before, err := os.Stat(s.path("B/g"))
	if err != nil {
		t.Fatal(err)
	}
	s.must(key, cfg)
	s.has("B", "g", noise(largeSize))
	if after, err := os.Stat(s.path("B/g")); err != nil || !os.SameFile(before, after) {
		t.Errorf("a complete file was written again, %v", err)
	}

	s.write(server+"/f", "smaller")
	s.must(key, cfg)
	s.has("B", "g", "smaller")
}

// resumed reports whether the first download from a server here went on with
// what an earlier attempt has left.
func (s *site) resumed(server string) bool {
	if server == "ftp" {
		return slices.ContainsFunc(s.ftp.Commands(), func(c string) bool { return strings.HasPrefix(c, "REST ") && c != "REST 0" })
	}
	for _, op := range s.sftp.Ops() {
		if op.Method == "read" {
			return op.Offset > 0
		}
	}
	return false
}

// TestResumeInAttempts: where each attempt has a directory of its own, the next
// one goes on with what the last one has left in its own, too.
func TestResumeInAttempts(t *testing.T) {
	for _, server := range []string{"sftp", "ftp"} {
		for _, cfg := range []object{
			{"remote_path": "in/f"}, {"remote_path": "in/f", "resume": true}, {"remote_path": "in", "pattern": "*"}, {"remote_path": ".", "pattern": "**/*"},
			{"remote_path": "in/f", "resume": false},
		} {
			s := newSite(t, map[string]string{server + "/in/f": noise(largeSize)})
			cfg = with(cfg, "connection_id", server)
			s.killed(server+".download", cfg)
			out := s.must(server+".download", cfg)
			if got, _ := out["downloaded_file"].(string); s.read("W/"+got) != noise(largeSize) {
				t.Errorf("%s: the content of %q differs", server, got)
			}
			if s.resumed(server) == (cfg["resume"] == false) {
				t.Errorf("%s: %v: the next attempt went on: %v", server, cfg, s.resumed(server))
			}
			for _, name := range s.files("W") {
				if strings.HasSuffix(name, "part") {
					t.Errorf("%s: %s is left", server, name)
				}
			}
		}
	}
}

// "Overwrite — to the same output path", of local files.
func overwritesLocally(t *testing.T, s *site, key string, cfg object, want string) {
	t.Helper()
	s.write("B/g", "old")
	s.killed(key, cfg)
	s.left("B")
	if got := s.read("B/g"); got != "old" {
		t.Errorf("a killed attempt left %d bytes under the final name", len(got))
	}
	for range 2 {
		s.must(key, cfg)
		s.has("B", "g", want)
	}
}

// "Re-encryption produces functionally equivalent output".
func encryptsAgain(t *testing.T) {
	s := newSite(t, map[string]string{"W/f": noise(largeSize), "B/g": "old"})
	cfg := object{"source_path": "f", "output_path": "$B/g", "recipient_key_ids": []string{"us"}}
	s.killed("pgp.encrypt", cfg)
	s.left("B")
	if got := s.read("B/g"); got != "old" {
		t.Errorf("a killed attempt left %d bytes under the final name", len(got))
	}
	for range 2 {
		s.must("pgp.encrypt", cfg)
		s.has("B", "g", s.read("B/g"))
		s.must("pgp.decrypt", object{"source_path": "$B/g", "output_path": "back"})
		if s.read("W/back") != noise(largeSize) {
			t.Error("it decrypts to something else")
		}
	}
}

// "Archive creation is atomic", and the same files make the same archive.
func zipsAgain(t *testing.T) {
	s := newSite(t, map[string]string{"W/f": noise(largeSize)})
	s.must("file.zip", object{"source_path": "f", "output_path": "first.zip"})
	overwritesLocally(t, s, "file.zip", object{"source_path": "f", "output_path": "$B/g"}, s.read("W/first.zip"))
}

// "Clean and re-extract": nothing of a killed attempt is in the directory. What
// a completed one has extracted is not wiped but kept, for it may be in use.
func unpacksAgain(t *testing.T) {
	s := newSite(t, map[string]string{"W/f": noise(largeSize), "W/h": "small"})
	s.must("file.zip", object{"source_paths": []string{"f", "h"}, "output_path": "f.zip"})
	cfg := object{"archive_path": "f.zip", "output_directory": "$B/out"}
	s.killed("file.unzip", cfg)
	if _, err := os.Stat(s.path("B/out")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a killed attempt left the directory, %v", err)
	}
	for range 2 {
		s.must("file.unzip", cfg)
		if got := s.files("B"); !slices.Equal(got, []string{"out/f", "out/h"}) || s.read("B/out/f") != noise(largeSize) {
			t.Errorf("there are %q", got)
		}
	}
}

// "Check-and-skip": what was moved is not moved again, also if a new file has
// come under the old name; "if neither exists, fail".
func renamesOnce(t *testing.T) {
	s := newSite(t, map[string]string{"B/f": "content"})
	cfg := object{"source_path": "$B/f", "destination_path": "$B/g"}
	for range 2 {
		s.must("file.rename", cfg)
		s.has("B", "g", "content")
	}
	s.write("B/f", "next")
	s.must("file.rename", cfg)
	if s.read("B/f") != "next" || s.read("B/g") != "content" {
		t.Errorf("the next file was moved too: %q", s.files("B"))
	}

	s = newSite(t, nil)
	if _, err := s.next("file.rename", cfg); err == nil || !strings.Contains(err.Error(), "B/f") {
		t.Errorf("neither exists: %v", err)
	}
}

// "Check-and-skip": a file that is gone is no error, and one that has come since
// then stays.
func deletesOnce(t *testing.T) {
	s := newSite(t, map[string]string{"B/f": "content", "B/other": "x"})
	cfg := object{"path": "$B/f"}
	for range 2 {
		s.must("file.delete", cfg)
		s.has("B", "other", "x")
	}
	s.write("B/f", "next")
	s.must("file.delete", cfg)
	if s.read("B/f") != "next" {
		t.Error("the next file was deleted too")
	}
	s = newSite(t, nil)
	s.must("file.delete", cfg)
}
