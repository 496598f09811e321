package file_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/file"
)

// A consumer takes the file from the destination as soon as it is there, even
// if the process that moved it is killed at that very moment. It must get the
// file once, or the retry must say that it can't tell.
func TestMoveThenTaken(t *testing.T) {
	for _, c := range []struct{ name, from, to string }{
		{"in one directory", "A/f", "A/out/f"},
		{"across", "A/f", "B/out/f"},
		{"from the workspace", "W/1/f", "B/f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := m{"source_path": c.from, "destination_path": c.to}
			errors := 0
			for n := 1; ; n++ {
				s := newSite(t)
				s.write(t, map[string]string{c.from: "text"})
				killed := s.kill(t, "file.move", cfg, n)
				taken := 0
				take := func() {
					switch got := s.read(t, c.to); got {
					case "text":
						taken++
						os.Remove(s.path(c.to))
					case "-":
					default:
						t.Errorf("point %d: the destination holds %q", n, got)
					}
				}
				take()
				_, err := s.execute(t.Context(), registry(file.Limits{}), "file.move", cfg)
				if err != nil {
					errors++
				}
				take()
				left := s.read(t, c.from)
				if taken > 1 || taken == 0 && left != "text" || taken == 1 && err == nil && left != "-" {
					t.Errorf("point %d: taken %d times, source %q, error %v", n, taken, left, err)
				}
				if !killed {
					break
				}
			}
			// Only between an effect and the note of it nobody can tell.
			if errors > 1 {
				t.Errorf("%d points at which a retry can't tell what was done", errors)
			}
		})
	}
}

// A partner puts the next file where the moved or deleted one was. It must
// stay there, whatever the retry finds.
func TestNextFileStays(t *testing.T) {
	for _, c := range []struct {
		name, key string
		cfg       m
	}{
		{"move", "file.move", m{"source_path": "A/f", "destination_path": "A/out/f"}},
		{"move across", "file.move", m{"source_path": "A/f", "destination_path": "B/out/f"}},
		{"move many", "file.move", m{"source_path": "A/*", "destination_path": "A/out"}},
		{"delete", "file.delete", m{"path": "A/f"}},
		{"delete many", "file.delete", m{"path": "A/*"}},
		{"delete directory", "file.delete", m{"path": "A/d", "recursive": true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			first := "A/f"
			if c.name == "delete directory" {
				first = "A/d/f"
			}
			for n := 1; ; n++ {
				s := newSite(t)
				s.write(t, map[string]string{first: "text", "A/g": "text"})
				killed := s.kill(t, c.key, c.cfg, n)
				next := s.read(t, first) == "-"
				if next {
					s.write(t, map[string]string{first: "next"})
					now := time.Now() // the number of the deleted file is often given to the next
					os.Chtimes(s.path(first), now, now)
				}
				s.run(t, c.key, c.cfg)
				if got := s.read(t, first); next && got != "next" {
					t.Errorf("point %d: in the place of the next file: %q", n, got)
				}
				if got := s.read(t, "A/out/f") + s.read(t, "B/out/f"); c.key == "file.move" && got != "text-" && got != "-text" {
					t.Errorf("point %d: arrived: %q", n, got)
				}
				if !killed {
					return
				}
			}
		})
	}
}

// After an attempt that ended with an error, what it did not come to is
// decided anew: an operator may have replaced it meanwhile.
func TestDeleteAfterError(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "1", "A/2": "2", "A/3": "3"})
	cfg := m{"path": "A/*"}
	ctx := newFuse(t.Context(), 4)
	if _, err := s.execute(ctx, registry(file.Limits{}), "file.delete", cfg); err == nil {
		t.Fatal("the fuse has not blown")
	}
	left := s.read(t, "A/1") + s.read(t, "A/2") + s.read(t, "A/3")
	if left == "123" || left == "---" {
		t.Fatalf("left is %s", left)
	}
	s.write(t, map[string]string{"A/1": "new", "A/3": "also new"})
	out := s.run(t, "file.delete", cfg)
	if got := s.read(t, "A/1") + s.read(t, "A/2") + s.read(t, "A/3"); got != "new--" {
		t.Errorf("left is %s", got)
	}
	equal(t, out, "deleted_count", 3)
}

// A file that is replaced while its copy is on the way is moved anew.
func TestMoveChangedSource(t *testing.T) {
	for n := 1; ; n++ {
		s := newSite(t)
		s.write(t, map[string]string{"A/f": "text"})
		cfg := m{"source_path": "A/f", "destination_path": "B/f"}
		killed := s.kill(t, "file.move", cfg, n)
		arrived := s.read(t, "B/f") == "text"
		s.write(t, map[string]string{"A/f": "newer"})
		s.run(t, "file.move", cfg)
		from, to := s.read(t, "A/f"), s.read(t, "B/f")
		if arrived && (from != "newer" || to != "text") || !arrived && (from != "-" || to != "newer") {
			t.Errorf("point %d: arrived %v; then %q, %q", n, arrived, from, to)
		}
		if !killed {
			return
		}
	}
}

// What somebody else puts at the destination is no proof of our having moved.
func TestMoveForeignTarget(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "mine", "B/f": "them"})
	cfg := m{"source_path": "A/f", "destination_path": "B/f"}
	if !s.kill(t, "file.move", cfg, 2) {
		t.Fatal("the step has ended")
	}
	os.Remove(s.path("A/f"))
	_, err := s.execute(t.Context(), registry(file.Limits{}), "file.move", cfg)
	if err == nil || !strings.Contains(err.Error(), "is gone") || s.read(t, "B/f") != "them" {
		t.Errorf("error %v, destination %q", err, s.read(t, "B/f"))
	}
}

// A journal whose last line was cut off by a crash is as good as without it;
// one that is damaged otherwise stops the step.
func TestJournalDamage(t *testing.T) {
	journal := func(s *site) string { return filepath.Join(s.Work, ".notes", "3", "move-journal.courier-tmp") }
	cfg := m{"source_path": "A/f", "destination_path": "A/g"}

	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text"})
	s.run(t, "file.move", cfg)
	b, err := os.ReadFile(journal(s))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(journal(s), b[:len(b)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	s.run(t, "file.move", cfg)
	if b, _ = os.ReadFile(journal(s)); !json.Valid(b[strings.LastIndexByte(strings.TrimSuffix(string(b), "\n"), '\n')+1:]) {
		t.Errorf("the journal's last line is %q", b)
	}
	if err := os.WriteFile(journal(s), append([]byte("{\n"), b...), 0o600); err != nil {
		t.Fatal(err)
	}
	s.refuse(t, "file.move", cfg, "line 1 is damaged")
}

// An attempt that does not stop is given up: its context is closed, and the
// next attempt runs. Whatever the first one does when it wakes up, it changes
// nothing.
func TestAbandoned(t *testing.T) {
	for _, c := range scenarios() {
		if c.key == "file.delete" {
			continue // reports no progress to hang in
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			out, files := c.undisturbed(t)
			for n := 1; n <= raced.Or(1, 4); n++ {
				s := c.site(t)
				hangs, wake := make(chan struct{}), make(chan struct{})
				calls := 0
				s.progress = func(courier.Progress) {
					if calls++; calls == n {
						close(hangs)
						<-wake
					}
				}
				first := s.job()
				s.progress = nil
				ended := make(chan error, 1)
				go func() {
					_, err := s.in(t.Context(), first, registry(file.Limits{}), c.key, c.cfg)
					ended <- err
				}()
				select {
				case <-hangs:
				case err := <-ended: // it has no more progress to report
					first.Close()
					if err != nil {
						t.Error(err)
					}
					return
				}
				first.Close()
				c.attempt(t, s, fmt.Sprintf("beside an attempt that hangs in report %d", n), out, files)
				close(wake)
				if err := <-ended; err == nil {
					t.Errorf("report %d: the abandoned attempt succeeded", n)
				}
				c.attempt(t, s, fmt.Sprintf("after an attempt that hung in report %d", n), out, files)
			}
		})
	}
}

// elsewhere returns a directory on another file system than that of dir; empty if
// none is found.
func elsewhere(t *testing.T, dir string) string {
	t.Helper()
	for _, parent := range []string{"/dev/shm", "/tmp", "/var/tmp"} {
		other, err := os.MkdirTemp(parent, "courier-test")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(other) })
		probe := filepath.Join(dir, "probe")
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Rename(probe, filepath.Join(other, "probe")) != nil {
			os.Remove(probe)
			return other
		}
	}
	return ""
}

// A rename from one file system to another below the same directory is a copy.
func TestMoveBetweenFileSystems(t *testing.T) {
	s := newSite(t)
	other := elsewhere(t, s.Dir)
	if other == "" {
		return // there is none at hand
	}
	s.write(t, map[string]string{"A/f": "text", "A/g": "more"})
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: s.Work, Roots: []string{"/"}})
	defer job.Close()
	for _, source := range []string{"A/f", "A/*"} {
		if _, err := s.in(t.Context(), job, registry(file.Limits{}), "file.move", m{"source_path": source, "destination_path": other + "/new/"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.read(t, "A/f") + s.read(t, "A/g") + s.read(t, other+"/new/f") + s.read(t, other+"/new/g"); got != "--textmore" {
		t.Errorf("files hold %q", got)
	}
}

// A copy that could not be published is made again. That its side file is gone
// must not be taken for its having arrived.
func TestMovePublishFails(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/f": "text"})
	cfg := m{"source_path": "A/f", "destination_path": "B/f"}
	var r courier.Registry
	file.RegisterWith(&r, file.Limits{}, func(effect string) {
		if effect == "publish" {
			s.write(t, map[string]string{"B/f/x": "in the way"})
		}
	})
	if _, err := s.execute(t.Context(), &r, "file.move", cfg); err == nil {
		t.Fatal("a file took the place of a directory")
	}
	if got := s.read(t, "A/f"); got != "text" {
		t.Fatalf("the source holds %q", got)
	}
	os.RemoveAll(s.path("B/f"))
	s.run(t, "file.move", cfg)
	if got := s.read(t, "A/f") + s.read(t, "B/f"); got != "-text" {
		t.Errorf("files hold %q", got)
	}
}

// An attempt that ends with an error leaves the rest to the next one, but once
// that one has begun, what comes later is not its business.
func TestDeleteAfterErrorAndKill(t *testing.T) {
	for n := 1; ; n++ {
		s := newSite(t)
		s.write(t, map[string]string{"A/1": "1", "A/2": "2", "A/3": "3"})
		cfg := m{"path": "A/*"}
		if _, err := s.execute(newFuse(t.Context(), 4), registry(file.Limits{}), "file.delete", cfg); err == nil {
			t.Fatal("the fuse has not blown")
		}
		killed := s.kill(t, "file.delete", cfg, n)
		gone := s.read(t, "A/3") == "-"
		if gone {
			s.write(t, map[string]string{"A/3": "next"})
		}
		s.run(t, "file.delete", cfg)
		if got := s.read(t, "A/3"); gone && got != "next" || !gone && got != "-" {
			t.Errorf("point %d: gone %v, then %q", n, gone, got)
		}
		if !killed {
			return
		}
	}
}
