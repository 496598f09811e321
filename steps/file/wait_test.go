package file_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/steps/file"
)

// waits runs file.wait in virtual time, while script changes the files, and
// returns how long it took.
func waits(t *testing.T, s *site, cfg m, script func()) (out m, took time.Duration, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			script()
		}()
		out, err = s.execute(t.Context(), registry(file.Limits{}), "file.wait", cfg)
		took = time.Since(start)
		<-ended
	})
	return out, took, err
}

func TestWait(t *testing.T) {
	put := func(s *site, name, content string) {
		if err := os.WriteFile(s.path(name), []byte(content), 0o644); err != nil {
			panic(err)
		}
	}
	for _, c := range []struct {
		name   string
		cfg    m
		script func(s *site)
		files  []string
		took   time.Duration
	}{
		{"there already", m{"path": "A/there"}, func(*site) {}, []string{"/a/there"}, 5 * time.Second},
		{"as it is", m{"path": "A/there", "stable_seconds": 0}, func(*site) {}, []string{"/a/there"}, 0},
		{"comes later", m{"path": "A/f"}, func(s *site) {
			time.Sleep(20500 * time.Millisecond)
			put(s, "A/f", "x")
		}, []string{"/a/f"}, 26 * time.Second},
		{"grows for an hour", m{"path": "A/f", "timeout_seconds": 0, "poll_seconds": 10, "stable_seconds": 60}, func(s *site) {
			time.Sleep(5 * time.Second) // between two looks
			for i := range 120 {
				put(s, "A/f", strings.Repeat("x", i))
				time.Sleep(30 * time.Second)
			}
		}, []string{"/a/f"}, (10 + 119*30 + 60) * time.Second},
		{"is taken away and comes again", m{"path": "A/f"}, func(s *site) {
			put(s, "A/f", "x")
			time.Sleep(4500 * time.Millisecond)
			os.Remove(s.path("A/f"))
			time.Sleep(3 * time.Second)
			put(s, "A/f", "y")
		}, []string{"/a/f"}, 13 * time.Second},
		{"pattern", m{"path": "A/new/*.csv", "min_files": 2}, func(s *site) {
			time.Sleep(3500 * time.Millisecond)
			os.Mkdir(s.path("A/new"), 0o755)
			put(s, "A/new/1.csv", "x")
			put(s, "A/new/2.txt", "x")
			time.Sleep(3 * time.Second)
			put(s, "A/new/2.csv", "x")
			time.Sleep(3 * time.Second)
			put(s, "A/new/3.csv", "x")
		}, []string{"/a/new/1.csv", "/a/new/2.csv", "/a/new/3.csv"}, 15 * time.Second},
		{"no unfinished files", m{"path": "A/u*"}, func(s *site) {
			put(s, "A/u.courier-tmp-1", "x")
			time.Sleep(99500 * time.Millisecond)
			os.Rename(s.path("A/u.courier-tmp-1"), s.path("A/u"))
		}, []string{"/a/u"}, 105 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(t)
			s.write(t, map[string]string{"A/there": "content"})
			out, took, err := waits(t, s, c.cfg, func() { c.script(s) })
			if err != nil {
				t.Fatal(err)
			}
			equal(t, out, "found", true)
			equal(t, out, "found_files", c.files)
			equal(t, out, "found_file", c.files[0])
			if took != c.took {
				t.Errorf("took %v, want %v", took, c.took)
			}
		})
	}
}

func TestWaitTimeout(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/1": "x"})
	for _, c := range []struct {
		cfg   m
		words string
	}{
		{m{"path": "A/none"}, "it is not there"},
		{m{"path": "A/none/deep"}, "it is not there"},
		{m{"path": "A/1/deep"}, "it is not there"},
		{m{"path": "A/*", "min_files": 2}, "1 of 2 files are there"},
		{m{"path": "A/1", "stable_seconds": 4000}, "has not been stable for 4000 s"},
	} {
		_, took, err := waits(t, s, c.cfg, func() {})
		if err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "on_timeout") || took != time.Hour {
			t.Errorf("%v: error %v after %v", c.cfg, err, took)
		}
		c.cfg["on_timeout"], c.cfg["timeout_seconds"] = "continue", 90.5
		out, took, err := waits(t, s, c.cfg, func() {})
		if err != nil || took != 90500*time.Millisecond {
			t.Errorf("%v: %v after %v", c.cfg, err, took)
		}
		equal(t, out, "timed_out", true)
		equal(t, out, "found", false)
	}
}

func TestWaitRefuses(t *testing.T) {
	s := newSite(t)
	s.write(t, map[string]string{"A/d/1": "x"})
	s.refuse(t, "file.wait", m{"path": "A/d"}, "!is a directory", "/*")
	s.refuse(t, "file.wait", m{"path": "/etc/passwd"}, "!engine.Options.Roots")
	s.refuse(t, "file.wait", m{"path": "A/1", "stable_seconds": -1}, "!stable_seconds: must be at least 0")
	s.refuse(t, "file.wait", m{"path": "A/1", "poll_seconds": 1e18}, "!poll_seconds: must be at most 1000000000")
	s.refuse(t, "file.wait", m{"path": "A/[", "glob": true}, "!malformed")
}

// A wait ends at once when its context does.
func TestWaitCancelled(t *testing.T) {
	s := newSite(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("enough")
		time.AfterFunc(2500*time.Millisecond, func() { cancel(cause) })
		start := time.Now()
		_, err := s.execute(ctx, registry(file.Limits{}), "file.wait", m{"path": "A/f", "poll_seconds": 600})
		if !errors.Is(err, cause) || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("error %v after %v", err, time.Since(start))
		}
	})
}
