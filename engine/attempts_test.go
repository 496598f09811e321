package engine_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
)

// put writes a file through job and reports it.
func put(t *testing.T, job *courier.Context, name string) {
	t.Helper()
	f, err := job.Files().Create(name)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	if err := f.Commit(); err != nil {
		t.Error(err)
	}
}

// cleaner is a step with a Cleanup that does nothing.
type cleaner struct {
	do func(job *courier.Context) error
}

func (c cleaner) Execute(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, c.do(job)
}

func (cleaner) Cleanup(ctx, *courier.Context, struct{}) error { return nil }

// TestEarlierAttemptsAreRemoved checks what an attempt finds of an earlier one of its step:
// of a function, neither directories nor reported files in the workspace, but all that
// others need; of a type with a Cleanup, everything.
func TestEarlierAttemptsAreRemoved(t *testing.T) {
	for _, cleans := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			outside, dir := t.TempDir(), t.TempDir()
			h := couriertest.New(t, &engine.Options{Workspace: dir, Roots: []string{outside}})
			courier.RegisterFunc(h.Registry, "demo.first", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
				put(t, job, "input.txt")
				put(t, job, "2/1/of-the-first.txt") // in the directory of an attempt of the next
				return struct{}{}, nil
			}, nil)
			var there [][]string
			do := func(job *courier.Context) error {
				var list []string
				work := filepath.Join(dir, string(job.Execution()))
				for _, name := range []string{
					"input.txt", "2/1/of-the-first.txt", "2/1/own.txt", "2/1/left-with-os.txt", "2/1/held.txt", "2/2/own.txt", "2/notes.txt", "fixed.txt", "fixed/dir/x.txt", ".notes/2/n.txt",
				} {
					if _, err := os.Stat(filepath.Join(work, name)); err == nil {
						list = append(list, name)
					}
				}
				if _, err := os.Stat(filepath.Join(outside, "out.txt")); err == nil {
					list = append(list, "out.txt")
				}
				there = append(there, list)
				if job.Attempt() == 3 {
					return nil
				}
				for _, name := range []string{"own.txt", "held.txt"} {
					put(t, job, path.Join(job.Files().Dir(), name))
				}
				if err := stepcontext.Of(job).Hold(path.Join(job.Files().Dir(), "held.txt")); err != nil {
					return err
				}
				for _, name := range []string{"input.txt", "fixed.txt", "fixed/dir/x.txt", "2/notes.txt", stepcontext.Of(job).NoteDir() + "/n.txt", filepath.Join(outside, "out.txt")} {
					put(t, job, name)
				}
				if err := os.WriteFile(filepath.Join(work, job.Files().Dir(), "left-with-os.txt"), nil, 0o600); err != nil {
					return err
				}
				return errors.New("boom")
			}
			if cleans {
				courier.Register(h.Registry, "demo.second", cleaner{do}, nil)
			} else {
				courier.RegisterFunc(h.Registry, "demo.second", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
					return struct{}{}, do(job)
				}, nil)
			}
			h.Run(h.Job(`{"name": "again", "failure_policy": {"type": "retry_step", "max_retries": 2}, "steps": [
				{"type": "demo.first"}, {"type": "demo.first"}, {"type": "demo.second"}]}`), nil).RequireState(courier.Completed)
			all := []string{
				"input.txt", "2/1/of-the-first.txt", "2/1/own.txt", "2/1/left-with-os.txt", "2/1/held.txt", "2/notes.txt", "fixed.txt", "fixed/dir/x.txt", ".notes/2/n.txt", "out.txt",
			}
			want := []string{"input.txt", "2/1/of-the-first.txt", "2/1/held.txt", "2/notes.txt", ".notes/2/n.txt", "out.txt"}
			if cleans {
				want = all
			}
			if len(there) != 3 || !slices.Equal(there[1], want) {
				t.Errorf("cleans up: %t; found %q, want %q at attempt 2", cleans, there, want)
			}
			if cleans != slices.Contains(there[2], "2/2/own.txt") {
				t.Errorf("cleans up: %t; found %q at attempt 3", cleans, there[2])
			}
		})
	}
}

// TestCutOffAttemptKeepsItsFiles checks that nothing is removed while an attempt that was
// cut off may still write, and that its directory is when it has returned.
func TestCutOffAttemptKeepsItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := couriertest.New(t, &engine.Options{Workspace: dir})
		release := make(chan struct{})
		var there []bool
		courier.RegisterFunc(h.Registry, "demo.hang", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			first := filepath.Join(dir, string(job.Execution()), strings.TrimSuffix(job.Files().Dir(), path.Base(job.Files().Dir())), "1", "own.txt")
			there = append(there, exists(t, first))
			switch job.Attempt() {
			case 1:
				put(t, job, path.Join(job.Files().Dir(), "own.txt"))
				<-release
			case 2:
				close(release)
				time.Sleep(time.Millisecond)
				return struct{}{}, errors.New("boom")
			}
			return struct{}{}, nil
		}, nil)
		h.Run(h.Job(`{"name": "hangs", "steps": [{"type": "demo.hang", "timeout_seconds": 1, "failure_policy": {"type": "retry_step", "max_retries": 2}}]}`), nil).RequireState(courier.Completed)
		if !slices.Equal(there, []bool{false, true, false}) {
			t.Errorf("the file of the first attempt is there: %v", there)
		}
	})
}

// TestAttemptThatMovesKeepsItsFiles checks that what an attempt wrote stays if it has
// removed a file, as one does that moves its input.
func TestAttemptThatMovesKeepsItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		courier.RegisterFunc(h.Registry, "demo.put", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			put(t, job, "input.txt")
			return struct{}{}, nil
		}, nil)
		courier.RegisterFunc(h.Registry, "demo.move", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
			if job.Attempt() == 1 {
				put(t, job, "output.txt")
				put(t, job, path.Join(job.Files().Dir(), "second.txt"))
				return struct{}{}, errors.Join(job.Files().Remove("input.txt"), errors.New("boom"))
			}
			_, err := job.Files().Stat("output.txt")
			_, second := job.Files().Stat(path.Join(job.Files().StepDir(), "1", "second.txt"))
			if job.Attempt() == 2 {
				return struct{}{}, errors.Join(err, second, errors.New("boom"))
			}
			return struct{}{}, errors.Join(err, second)
		}, nil)
		h.Run(h.Job(`{"name": "moves", "failure_policy": {"type": "retry_step", "max_retries": 2}, "steps": [{"type": "demo.put"}, {"type": "demo.move"}]}`), nil).RequireState(courier.Completed)
	})
}

// TestAttemptsOfManyRecords checks that what a failed attempt of a step without Cleanup has
// left is removed before the next one, but not in an execution with so many records that
// reading them for each attempt would take long.
func TestAttemptsOfManyRecords(t *testing.T) {
	for items, removed := range map[int]bool{9_900: true, 10_100: false} { // two audit entries each
		couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
			left := false
			courier.RegisterFunc(h.Registry, "demo.nop", nop, nil)
			courier.RegisterFunc(h.Registry, "demo.write", func(_ ctx, job *courier.Context, _ struct{}) (struct{}, error) {
				if job.Attempt() == 1 {
					put(t, job, "part")
					return struct{}{}, errors.New("not now")
				}
				f, err := job.Files().Open("part")
				if left = err == nil; left {
					f.Close()
				}
				return struct{}{}, nil
			}, nil)
			h.Run(h.Job(`{"name": "j", "params": {"items": null}, "steps": [{"type": "flow.foreach", "config": {"source": "context:params.items"}}, {"type": "demo.nop"}, {"type": "flow.end"},
				{"type": "demo.write", "failure_policy": {"type": "retry_step", "max_retries": 1}}]}`), map[string]any{"items": make([]int, items)}).RequireState(courier.Completed)
			if left == removed {
				t.Errorf("%d items: the file that the failed attempt left is there: %t", items, left)
			}
		})
	}
}
