package remote

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// cursorJob is an attempt of a step that has the cursor of the one before.
func cursorJob(t *testing.T, dir string, before *cursor) *courier.Context {
	t.Helper()
	job := courier.NewContext(courier.ContextConfig{Execution: "x", Workspace: dir})
	t.Cleanup(func() { job.Close() })
	if before != nil {
		if err := job.SaveCursor(savedParts{before.parts}); err != nil {
			t.Fatal(err)
		}
	}
	return job
}

// TestPartOfAnotherHost goes on with a part that another host has begun, from where the
// cursor says that it was on the disk, and only with the part that the cursor is about.
func TestPartOfAnotherHost(t *testing.T) {
	was := Identity{Size: 10 << 20, Modified: time.Unix(1e9, 0).UTC(), Kind: KindFile}
	about := partNote{Server: "s:22", Remote: "big", Was: was, Boot: "one"}
	for _, c := range []struct {
		name   string
		change func(p *partial, c *cursor)
		source func(n *partNote)
		want   int64
	}{
		{"as it was", nil, nil, 3 << 20},
		{"nothing was saved", func(_ *partial, c *cursor) { c.parts = nil }, nil, 0},
		{"less is there than was safe", func(p *partial, _ *cursor) { p.Truncate(1 << 20) }, nil, 0},
		{"begun again after it was saved", func(p *partial, _ *cursor) { p.restart(); p.Write(make([]byte, 8<<20)) }, nil, 0},
		{"another size", nil, func(n *partNote) { n.Was.Size++ }, 0},
		{"another time", nil, func(n *partNote) { n.Was.Modified = was.Modified.Add(1) }, 0},
		{"another file", nil, func(n *partNote) { n.Remote = "other" }, 0},
		{"another server", nil, func(n *partNote) { n.Server = "t:22" }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			job := cursorJob(t, dir, nil)
			saved := openCursor(job)
			p, err := openPartial(job, "big", about, saved, true)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Write(make([]byte, 3<<20)); err != nil {
				t.Fatal(err)
			}
			end := saved.follow(was.Size, p.synced)
			end(os.ErrDeadlineExceeded)
			if _, err := p.Write(make([]byte, 2<<20)); err != nil { // not safe
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(p, saved)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			now := about
			now.Boot = "two"
			if c.source != nil {
				c.source(&now)
			}
			next := cursorJob(t, dir, saved)
			for range 2 { // the second time the note is that of the second host
				p, err = openPartial(next, "big", now, openCursor(next), true)
				if err != nil {
					t.Fatal(err)
				}
				if info, err := p.Stat(); err != nil || p.start != c.want || info.Size() != c.want {
					t.Errorf("it goes on at %d with a file of %d bytes, want %d; %v", p.start, info.Size(), c.want, err)
				}
				p.File.Close()
			}
			if list, _ := filepath.Glob(filepath.Join(dir, "*")); len(list) > 2 {
				t.Errorf("in the directory are %q", list)
			}
		})
	}
}

// TestCursorFits has more files under way than a cursor can hold: it keeps those with the
// most bytes.
func TestCursorFits(t *testing.T) {
	job := cursorJob(t, t.TempDir(), nil)
	c := openCursor(job)
	for i := range 40 {
		c.set(cursorPart{Server: "s:22", Remote: fmt.Sprint(i, strings.Repeat("x", 200)), Part: "p", Size: 100, Done: int64(i)}, false)
	}
	got := openCursor(job)
	if n := len(got.parts); n < 10 || n >= 40 || got.parts[0].Done != 39 || got.parts[n-1].Done != int64(40-n) {
		t.Errorf("of 40 parts %d are saved: %v", n, got.parts)
	}
	for _, p := range got.parts {
		c.set(p, true)
	}
	if _, ok := c.done(got.parts[0]); ok {
		t.Error("a file that is finished is still there")
	}
}
