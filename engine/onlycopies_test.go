package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/store"
)

// A taking has jobs that take a file from a directory into the workspace and deliver it
// into another one, if they get so far.
type taking struct {
	*couriertest.Harness
	t             *testing.T
	work, in, out string
	fails, slow   atomic.Bool  // the delivery does, and takes half a minute
	failing       atomic.Value // string: the content of the file whose delivery fails, besides
}

// take runs f with a started engine on a directory tree of its own.
func take(t *testing.T, opt engine.Options, f func(t *testing.T, w *taking)) {
	t.Helper()
	w := &taking{work: t.TempDir(), in: t.TempDir(), out: t.TempDir()}
	w.fails.Store(true)
	opt.Workspace, opt.Roots = w.work, []string{w.in, w.out}
	couriertest.Virtual(t, &opt, func(t *testing.T, h *couriertest.Harness) {
		w.t, w.Harness = t, h
		file.Register(h.Registry, nil)
		// A stranger's step, which reports what it does and holds nothing.
		h.Stub("demo.take", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			from, to := cfg["source_path"].(string), cfg["destination_path"].(string)
			text, err := os.ReadFile(from)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, nil // taken by an earlier attempt
			}
			if err != nil {
				return nil, err
			}
			dst, err := job.Files().Create(to)
			if err != nil {
				return nil, err
			}
			defer dst.Close()
			if _, err := dst.Write(text); err != nil {
				return nil, err
			}
			return nil, errors.Join(dst.Commit(), job.Files().Remove(from))
		})
		h.Stub("demo.deliver", func(c ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
			if w.slow.Load() {
				select {
				case <-time.After(30 * time.Second):
				case <-c.Done():
					return nil, contextCause(c)
				}
			}
			if w.fails.Load() {
				return nil, errBoom
			}
			src, err := job.Files().Open(cfg["from"].(string))
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(src)
			if err = errors.Join(err, src.Close()); err != nil {
				return nil, err
			}
			if string(text) == w.failing.Load() {
				return nil, errBoom
			}
			to := cfg["from"]
			if cfg["to"] != nil {
				to = cfg["to"]
			}
			return nil, os.WriteFile(filepath.Join(w.out, to.(string)), text, 0o600)
		})
		h.Start()
		f(t, w)
	})
}

// job takes a file with a step of a type and delivers it under a policy, of the step or of
// the job. With a loop, it does so in one that accepts failed items.
func (w *taking) job(name, typ, policy string, loop bool) courier.Job {
	whole := `"stop"`
	if strings.Contains(policy, "retry_job") {
		loop = false // such a job can't have one
		policy, whole = "null", policy
	}
	steps := fmt.Sprintf(`{"type": %q, "config": {"source_path": %q, "destination_path": %q}},
		{"type": "demo.deliver", "failure_policy": %s, "config": {"from": %[3]q}}`, typ, filepath.ToSlash(filepath.Join(w.in, name)), name, policy)
	if loop {
		steps = `{"type": "flow.foreach", "config": {"source": ["x"], "on_item_failure": "continue", "then": "complete"}},` + steps + `, {"type": "flow.end"}`
	}
	return w.Job(fmt.Sprintf(`{"name": "take-%s", "failure_policy": %s, "steps": [%s]}`, name, whole, steps))
}

// start puts a file into place, and lets a job take it.
func (w *taking) start(name, typ, policy string, loop bool) courier.ExecutionID {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.in, name), []byte(name), 0o600); err != nil {
		w.t.Fatal(err)
	}
	id := w.Enqueue(w.job(name, typ, policy, loop), nil)
	w.rest()
	return id
}

func (w *taking) rest() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// places returns where a file is.
func (w *taking) places(id courier.ExecutionID, name string) (list []string) {
	for place, path := range map[string]string{"source": w.in, "target": w.out, "workspace": filepath.Join(w.work, string(id))} {
		if text, err := os.ReadFile(filepath.Join(path, name)); err == nil && string(text) == name {
			list = append(list, place)
		}
	}
	return list
}

// TestOnlyCopiesStay ends executions that hold the only copy of a file in each way that is
// no clean completion, by steps that hold it themselves, and by a stranger's that reports
// only what it has removed.
func TestOnlyCopiesStay(t *testing.T) {
	const stop, skip, later = `"stop"`, `"skip_and_continue"`, `{"type": "retry_step", "backoff_base_seconds": 600, "backoff_max_seconds": 600}`
	cancel := func(w *taking, id courier.ExecutionID) error {
		return errOf(w.Engine.Cancel(w.t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))
	}
	for _, typ := range []string{"file.move", "demo.take"} {
		for _, test := range []struct {
			name, policy string
			loop         bool
			act          func(*taking, courier.ExecutionID) error
			state        courier.State
			stays        bool
		}{
			{"cancel of a failed one", stop, false, cancel, courier.Cancelled, true},
			{"cancel in a backoff", later, false, cancel, courier.Cancelled, true},
			{"cancel by another engine", stop, false, func(w *taking, id courier.ExecutionID) error {
				other := w.AddEngine(&engine.Options{Workspace: w.t.TempDir(), WorkspaceID: "elsewhere"})
				return errOf(other.Cancel(w.t.Context(), id, &courier.CancelOptions{By: courier.By{Actor: "ops"}}))
			}, courier.Cancelled, true},
			{"skipped step", skip, false, nil, courier.Completed, true},
			{"accepted item", stop, true, nil, courier.Completed, true},
			{"clean", stop, false, func(w *taking, id courier.ExecutionID) error {
				w.fails.Store(false)
				return errOf(w.Engine.Resume(w.t.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "ops"}}))
			}, courier.Completed, false},
		} {
			t.Run(typ+" "+test.name, func(t *testing.T) {
				take(t, engine.Options{}, func(t *testing.T, w *taking) {
					id := w.start("a.txt", typ, test.policy, test.loop)
					if test.act != nil {
						if err := test.act(w, id); err != nil {
							t.Fatal(err)
						}
						w.rest()
					}
					for range 3 { // also after the janitors
						x := w.Wait(id).RequireState(test.state)
						if test.stays != x.HoldsOnlyCopies() || test.stays && !strings.HasSuffix(test.name, "other engine") && (x.OnlyCopies.Count != 1 || x.OnlyCopies.Bytes != 5 || x.OnlyCopies.Files[0] != courier.File{Path: "a.txt", Size: 5}) {
							t.Errorf("only copies: %+v", x.OnlyCopies)
						}
						if got := w.places(id, "a.txt"); len(got) != 1 || got[0] == "target" == test.stays {
							t.Fatalf("the file is in %q", got)
						}
						if exists(t, filepath.Join(w.work, string(id))) {
							age(t, filepath.Join(w.work, string(id)), 365*24*time.Hour)
						}
						time.Sleep(time.Hour)
						synctest.Wait()
					}
					if k := w.Engine.Health().Kept; test.stays != (k != nil) || k != nil && *k != (engine.KeptWorkspaces{Executions: 1, Files: 1, Bytes: 5}) {
						t.Errorf("Health says %+v", k)
					}
				})
			})
		}
	}
}

// TestKeepOnlyCopies has workspaces with only copies removed when their time has run out,
// and not before, whatever the age of their directories.
func TestKeepOnlyCopies(t *testing.T) {
	take(t, engine.Options{KeepOnlyCopies: 48 * time.Hour}, func(t *testing.T, w *taking) {
		id := w.start("a.txt", "demo.take", `"skip_and_continue"`, false)
		work := filepath.Join(w.work, string(id))
		age(t, work, 365*24*time.Hour)
		time.Sleep(47 * time.Hour)
		if synctest.Wait(); !exists(t, work) {
			t.Fatal("the workspace is gone before its time")
		}
		time.Sleep(2 * time.Hour)
		if synctest.Wait(); exists(t, work) || w.Engine.Health().Kept != nil {
			t.Errorf("the workspace is still there, or Health still has it: %+v", w.Engine.Health().Kept)
		}
		if log := w.Log(); strings.Count(log, "a workspace with only copies was removed") != 1 || !strings.Contains(log, string(id)) {
			t.Errorf("log: %s", log)
		}
	})
}

// TestOnlyCopiesAfterAnyActs takes files with random jobs and does random things with
// their executions: each file stays somewhere, and it is gone from everywhere but its
// target only where the job has completed without skipped steps.
func TestOnlyCopiesAfterAnyActs(t *testing.T) {
	for seed := range uint64(60) {
		take(t, engine.Options{}, func(t *testing.T, w *taking) {
			r := rand.New(rand.NewPCG(seed, 0))
			by := courier.By{Actor: "ops", Reason: "any"}
			policy := []string{`"stop"`, `"skip_and_continue"`, `{"type": "retry_job", "max_retries": 1}`, `{"type": "retry_step", "max_retries": 1}`}[r.IntN(4)]
			typ, loop := []string{"file.move", "demo.take"}[r.IntN(2)], r.IntN(3) == 0
			did := []string{fmt.Sprint(typ, " ", policy, " ", loop)}
			id := w.start("a.txt", typ, policy, loop)
			for range 6 {
				var act string
				var err error
				switch r.IntN(8) {
				case 7:
					act = "accept the failed items"
					var items []courier.FailedItem
					if items, err = w.Engine.Executions().FailedItems(t.Context(), id); len(items) > 0 {
						err = errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by, Accept: []courier.ItemPath{items[0].ItemPath}}))
					}
				case 0:
					act, err = "cancel", errOf(w.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: by}))
				case 1:
					act, err = "pause", errOf(w.Engine.Pause(t.Context(), id, by))
				case 2:
					act, err = "resume", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by}))
				case 3:
					act, err = "resume elsewhere", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by, Elsewhere: true}))
				case 4:
					act = "mend"
					w.fails.Store(r.IntN(2) == 0)
				case 5:
					act = "let the janitor come"
					if work := filepath.Join(w.work, string(id)); exists(t, work) {
						age(t, work, 365*24*time.Hour)
					}
					time.Sleep(2 * time.Hour)
				case 6:
					act = "wait"
					time.Sleep(time.Duration(r.IntN(1000)) * time.Second)
				}
				w.rest()
				did = append(did, fmt.Sprintf("%s (%v)", act, err))
				if got := w.places(id, "a.txt"); len(got) == 0 {
					t.Fatalf("seed %d: the file is nowhere after %s", seed, strings.Join(did, ", "))
				}
			}
		})
	}
}

// A host has a workspace of its own, and a worker that may be killed.
type host struct {
	id, dir string
	engine  *engine.Engine // nil if none was started
	dead    *atomic.Bool
}

func (h *host) start(w *taking) {
	h.stop(w)
	s, dead := killable(w.Store)
	h.dead = dead
	h.engine = engine.New(s, w.Registry, &engine.Options{Workspace: h.dir, WorkspaceID: h.id, Roots: []string{w.in, w.out}, Log: slog.New(slog.DiscardHandler)})
	if err := h.engine.Start(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// stop ends what a kill has left, or stops the worker at once.
func (h *host) stop(w *taking) {
	if h.engine == nil {
		return
	}
	done, cancel := context.WithCancel(w.t.Context())
	cancel()
	_ = h.engine.Stop(done) // it may be dead
	h.engine = nil
}

// has reports whether the file is in the workspace that an execution has there.
func (h *host) has(id courier.ExecutionID, name string) bool {
	text, err := os.ReadFile(filepath.Join(h.dir, string(id), name))
	return err == nil && string(text) == name
}

// TestOnlyCopiesOfLostWorkers takes a file on two hosts whose workers are killed and started, and
// does random things with the execution from a third one. The file stays somewhere. When all is
// over, and both hosts have workers, it was delivered, or it is in the list of kept files, with
// the host that has it.
func TestOnlyCopiesOfLostWorkers(t *testing.T) {
	const seeds = 30
	lost, listed := 0, 0
	for seed := range uint64(seeds) {
		take(t, engine.Options{WorkspaceID: "desk", Queues: []string{"none"}}, func(t *testing.T, w *taking) {
			r := rand.New(rand.NewPCG(seed, 2))
			by := courier.By{Actor: "ops", Reason: "any"}
			hosts := []*host{{id: "first", dir: t.TempDir()}, {id: "second", dir: t.TempDir()}}
			hosts[0].start(w)
			policy := []string{`"stop"`, `"skip_and_continue"`, `{"type": "retry_job", "max_retries": 1}`}[r.IntN(3)]
			typ := []string{"file.move", "demo.take"}[r.IntN(2)]
			did := []string{typ + " " + policy}
			w.slow.Store(r.IntN(2) == 0)
			id := w.start("a.txt", typ, policy, false)
			somewhere := func() bool {
				return len(w.places(id, "a.txt")) > 0 || hosts[0].has(id, "a.txt") || hosts[1].has(id, "a.txt")
			}
			for range 10 {
				var act string
				var err error
				h := hosts[r.IntN(2)]
				switch r.IntN(9) {
				case 0:
					act, err = "cancel", errOf(w.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: by}))
				case 1:
					act, err = "pause", errOf(w.Engine.Pause(t.Context(), id, by))
				case 2:
					act, err = "resume", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by}))
				case 3:
					act, err = "resume elsewhere", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by, Elsewhere: true}))
				case 4:
					fails, slow := r.IntN(2) == 0, r.IntN(2) == 0
					w.fails.Store(fails)
					w.slow.Store(slow)
					act = fmt.Sprintf("fails %v, slow %v", fails, slow)
				case 5, 6:
					if act = "kill " + h.id; h.engine != nil {
						h.dead.Store(true)
					}
				case 7:
					act = "start " + h.id
					h.start(w)
				case 8:
					act = "wait"
					time.Sleep(time.Duration(r.IntN(3000)) * time.Second)
				}
				w.rest()
				did = append(did, fmt.Sprintf("%s (%v)", act, err))
				if !somewhere() {
					t.Fatalf("seed %d: the file is nowhere after %s", seed, strings.Join(did, ", "))
				}
			}
			_, _ = w.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: by}) // unless it is over
			time.Sleep(2 * time.Minute)
			if x, err := w.Store.Execution(t.Context(), id); err != nil || x.OnlyCopies != nil && strings.Contains(x.OnlyCopies.Problem, "lost") {
				lost++
			}
			for _, h := range hosts {
				h.start(w)
			}
			time.Sleep(time.Minute) // a worker sweeps when it starts
			synctest.Wait()
			list, err := w.Engine.Executions().Kept(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			kept := slices.ContainsFunc(hosts, func(h *host) bool {
				return h.has(id, "a.txt") && slices.ContainsFunc(list, func(k store.KeptFiles) bool {
					return k.Workspace == h.id && slices.ContainsFunc(k.Files, func(f courier.File) bool { return f.Path == "a.txt" })
				})
			})
			if kept {
				listed++
			}
			if x, err := w.Store.Execution(t.Context(), id); err != nil || !x.State.Final() || !kept && len(w.places(id, "a.txt")) == 0 {
				t.Errorf("seed %d: it is %s, on the hosts %v, %v, kept files are %+v, after %s", seed, x.State, hosts[0].has(id, "a.txt"), hosts[1].has(id, "a.txt"), list, strings.Join(did, ", "))
			}
			for _, h := range hosts {
				h.stop(w)
			}
		})
	}
	if lost == 0 || listed < seeds/2 || listed == seeds {
		t.Errorf("of %d executions %d were cancelled after the loss of their worker, and files of %d were kept", seeds, lost, listed)
	}
}

// kept returns the only entry of the list of kept files.
func (w *taking) kept() store.KeptFiles {
	w.t.Helper()
	list, err := w.Engine.Executions().Kept(w.t.Context(), store.Filter{})
	if err != nil || len(list) != 1 {
		w.t.Fatalf("kept files: %+v, %v", list, err)
	}
	return list[0]
}

// TestDiscardKept lists kept files and discards them by name, by an engine that reaches them
// and by one that does not.
func TestDiscardKept(t *testing.T) {
	for _, elsewhere := range []bool{false, true} {
		take(t, engine.Options{WorkspaceID: "disk"}, func(t *testing.T, w *taking) {
			id := w.start("a.txt", "file.move", `"skip_and_continue"`, false)
			k := w.kept()
			want := []courier.File{{Path: "a.txt", Size: 5}}
			if k.Execution != id || k.Job != "take-a.txt" || k.State != courier.Completed || k.Workspace != "disk" || !reflect.DeepEqual(k.Files, want) || k.Count != 1 || k.Bytes != 5 ||
				len(k.Sources) != 1 || k.Sources[0].Path != filepath.ToSlash(filepath.Join(w.in, "a.txt")) {
				t.Errorf("kept files: %+v", k)
			}
			e := w.Engine
			if elsewhere {
				e = w.AddEngine(&engine.Options{Workspace: t.TempDir(), WorkspaceID: "elsewhere"})
			}
			by := courier.By{Actor: "ops", Reason: "nobody wants it"}
			for what, test := range map[string]struct {
				names []string
				by    courier.By
				want  error
			}{
				"no names": {nil, by, courier.ErrConflict}, "another name": {[]string{"b.txt"}, by, courier.ErrConflict},
				"no reason": {[]string{"a.txt"}, courier.By{Actor: "ops"}, courier.ErrInvalid},
			} {
				if _, err := e.DiscardKept(t.Context(), id, test.names, test.by); !errors.Is(err, test.want) || len(w.places(id, "a.txt")) != 1 {
					t.Errorf("%s: %v", what, err)
				}
			}
			x, err := e.DiscardKept(t.Context(), id, []string{"a.txt"}, by)
			if err != nil {
				t.Fatal(err)
			}
			if elsewhere {
				k := w.kept()
				if x.Request != store.RequestDiscard || k.DiscardedBy != "ops" || k.Why != by.Reason || k.DiscardedAt.IsZero() || len(w.places(id, "a.txt")) != 1 {
					t.Errorf("pending: %+v %+v", x, k)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
			}
			list, err := e.Executions().Kept(t.Context(), store.Filter{})
			if err != nil || len(list) != 0 || exists(t, filepath.Join(w.work, string(id))) || w.Engine.Health().Kept != nil {
				t.Errorf("afterwards: %+v, %v", list, err)
			}
			audit, err := e.Executions().Audit(t.Context(), id)
			if n := len(audit); err != nil || n < 2 || audit[n-2].Error != "discard 1 kept files: nobody wants it" || audit[n-2].By != "ops" || audit[n-1].Error != "1 kept files were discarded: a.txt" {
				t.Errorf("audit: %+v, %v", audit, err)
			}
		})
	}
}

// TestKeptFilesThatWereNotListed has a worker lost with the only copy of a file, and the
// execution cancelled: the janitor finds out what there is. It also notes that somebody has
// taken the files away by hand.
func TestKeptFilesThatWereNotListed(t *testing.T) {
	take(t, engine.Options{WorkspaceID: "disk"}, func(t *testing.T, w *taking) {
		id := w.start("a.txt", "demo.take", `"skip_and_continue"`, false)
		unknown := store.Found{Workspace: "disk", OnlyCopies: courier.OnlyCopies{Problem: "not listed"}}
		if _, err := w.Store.Request(t.Context(), store.Request{Execution: id, Kind: store.RequestFound, Found: &unknown}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Engine.DiscardKept(t.Context(), id, nil, courier.By{Actor: "ops", Reason: "why not"}); !errors.Is(err, courier.ErrConflict) || !strings.Contains(err.Error(), "not listed") {
			t.Errorf("discarded without names: %v", err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if k := w.kept(); len(k.Files) != 1 || k.Problem != "" {
			t.Errorf("after the sweep: %+v", k)
		}
		if err := os.RemoveAll(filepath.Join(w.work, string(id))); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if list, err := w.Engine.Executions().Kept(t.Context(), store.Filter{}); err != nil || len(list) != 0 || w.Engine.Health().Kept != nil {
			t.Errorf("taken away by hand: %+v, %v", list, err)
		}
	})
}

// TestOnlyCopiesOfEarlierPasses has an execution take a file and fail to deliver it. Another
// attempt of the job, or a resume from the beginning, delivers it if the step that takes files
// knows that it has taken it, and then nothing is kept. If it finds nothing, as a list does, the
// execution completes, and the file stays.
func TestOnlyCopiesOfEarlierPasses(t *testing.T) {
	const again = `{"type": "retry_job", "max_retries": 3, "backoff_base_seconds": 60, "backoff_max_seconds": 60}`
	for _, lists := range []bool{false, true} {
		for _, policy := range []string{again, `"stop"`} {
			if policy != again && !lists {
				continue // the source is gone, and the step was told to begin anew
			}
			take(t, engine.Options{}, func(t *testing.T, w *taking) {
				if err := os.WriteFile(filepath.Join(w.in, "a.txt"), []byte("a.txt"), 0o600); err != nil {
					t.Fatal(err)
				}
				job := w.job("a.txt", "file.move", policy, false)
				if lists {
					job = w.Job(fmt.Sprintf(`{"name": "fetch", "failure_policy": %s, "steps": [
						{"id": "look", "type": "file.list", "config": {"path": %q}}, {"type": "flow.foreach", "config": {"source": "context:look.file_list"}},
						{"type": "file.move", "config": {"source_path": "context:loop.current_item.path", "destination_path": "a.txt"}},
						{"type": "demo.deliver", "config": {"from": "a.txt"}}, {"type": "flow.end"}]}`, policy, w.in))
				}
				id := w.Enqueue(job, nil)
				w.rest()
				w.fails.Store(false)
				if policy != again {
					if _, err := w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{From: "0", Force: true, By: courier.By{Actor: "ops"}}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(10 * time.Minute)
				x := w.Wait(id).RequireState(courier.Completed)
				if got := w.places(id, "a.txt"); x.HoldsOnlyCopies() != lists || len(got) != 1 || got[0] != map[bool]string{true: "workspace", false: "target"}[lists] {
					t.Errorf("lists %v, %s: the file is in %q, only copies %+v", lists, policy, got, x.OnlyCopies)
				}
			})
		}
	}
}

// handOver returns the job of docs/operating.md that hands kept files over, and the step of it
// that uses the depot, for the directories of a test.
func (w *taking) handOver() (job, step string) {
	w.t.Helper()
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		w.t.Fatal(err)
	}
	_, job, found := strings.Cut(string(page), "To hand them over")
	_, job, _ = strings.Cut(job, "```json\n")
	job, step, _ = strings.Cut(job, "```")
	_, step, _ = strings.Cut(step, "```json\n")
	step, _, _ = strings.Cut(step, "```")
	if !found || step == "" {
		w.t.Fatal("docs/operating.md has no job that hands kept files over")
	}
	at := strings.NewReplacer("/srv/courier/workspaces", filepath.ToSlash(w.work), "/srv/handed-over", filepath.ToSlash(w.out))
	return at.Replace(job), at.Replace(step)
}

// TestHandOverKept copies kept files by the job of docs/operating.md, into a directory and into
// the depot. Only the engine of a queue of its own can execute it, whose roots have the
// workspaces. Other jobs do not reach them.
func TestHandOverKept(t *testing.T) {
	take(t, engine.Options{WorkspaceID: "disk"}, func(t *testing.T, w *taking) {
		store, err := depot.Dir(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		depot.Register(w.Registry, store, nil)
		id := w.start("a.txt", "file.move", `"skip_and_continue"`, false)
		clerk := w.AddEngine(&engine.Options{Workspace: t.TempDir(), WorkspaceID: "clerk", Queues: []string{"kept-files"}, Roots: []string{w.work, w.out}})
		if err := clerk.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range w.kept().Files {
			names = append(names, f.Path)
		}
		text, step := w.handOver()
		params := map[string]any{"execution": string(id), "files": names}
		w.Wait(w.Enqueue(w.Job(text), params)).RequireState(courier.Completed)
		if got, err := os.ReadFile(filepath.Join(w.out, string(id), "a.txt")); err != nil || string(got) != "a.txt" || len(w.places(id, "a.txt")) != 1 {
			t.Errorf("%q, %v, %v", got, err, w.places(id, "a.txt"))
		}
		var job courier.Job
		var keep courier.StepSpec
		if err := errors.Join(json.Unmarshal([]byte(text), &job), json.Unmarshal([]byte(step), &keep)); err != nil {
			t.Fatal(err)
		}
		job.Name, job.Steps[1] = "keep-kept-files", keep
		kept := w.Enqueue(job, params)
		w.Wait(kept).RequireState(courier.Completed)
		results, err := store.List(t.Context(), depot.ResultKey(kept, ""))
		if err != nil || len(results) != 1 || results[0].Key != depot.ResultKey(kept, "a.txt/a.txt") || results[0].Size != 5 {
			t.Errorf("results: %+v, %v", results, err)
		}
		// The same job in another queue, which the workers of all jobs serve.
		elsewhere := strings.NewReplacer("hand-over", "take-over", `"queue": "kept-files",`, "").Replace(text)
		if x := w.Wait(w.Enqueue(w.Job(elsewhere), params)); x.State != courier.Failed || !strings.Contains(x.Failure.Message, "lies outside") {
			t.Errorf("in another queue: %s, %+v", x.State, x.Failure)
		}
		if _, err := w.Engine.DiscardKept(t.Context(), id, names, courier.By{Actor: "ops", Reason: "handed over"}); err != nil {
			t.Error(err)
		}
	})
}

// TestNamesThatAreNotShown keeps a file whose name contains a secret, one whose name is not
// UTF-8, and one that can be shown. Only the latter's name reaches the store, by whichever way
// the execution ends and whoever lists the files: also one that has to ask for the secret again,
// which can't be had for an hour.
func TestNamesThatAreNotShown(t *testing.T) {
	by := courier.By{Actor: "ops", Reason: "so"}
	for how, act := range map[string]func(w *taking, id courier.ExecutionID) error{
		"skipped": func(*taking, courier.ExecutionID) error { return nil },
		"cancelled": func(w *taking, id courier.ExecutionID) error {
			return errOf(w.Engine.Cancel(w.t.Context(), id, &courier.CancelOptions{By: by}))
		},
		"completed without an attempt": func(w *taking, id courier.ExecutionID) error {
			return errOf(w.Engine.Resume(w.t.Context(), id, &courier.ResumeOptions{Skip: true, By: by}))
		},
		"completed without an attempt, while the secret can be had": func(w *taking, id courier.ExecutionID) error {
			return errOf(w.Engine.Resume(w.t.Context(), id, &courier.ResumeOptions{Skip: true, By: by}))
		},
		"not listed": func(w *taking, id courier.ExecutionID) error {
			unknown := store.Found{Workspace: "disk", OnlyCopies: courier.OnlyCopies{Problem: "not listed"}}
			return errOf(w.Store.Request(w.t.Context(), store.Request{Execution: id, Kind: store.RequestFound, Found: &unknown}))
		},
	} {
		t.Run(how, func(t *testing.T) {
			var outage atomic.Bool
			secrets := func(context.Context, courier.SecretRequest) (string, error) {
				if outage.Load() {
					return "", errBoom
				}
				return canarySecrets["plain"], nil
			}
			take(t, engine.Options{Secrets: secrets, WorkspaceID: "disk"}, func(t *testing.T, w *taking) {
				w.Stub("demo.name", func(_ ctx, job *courier.Context, cfg map[string]any) (map[string]any, error) {
					dir := filepath.Join(w.work, string(job.Execution()))
					errs := []error{os.MkdirAll(dir, 0o700)}
					for _, name := range []string{cfg["key"].(string) + ".txt", "a\xff.txt", "a.txt"} {
						errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte("a.txt"), 0o600))
					}
					return nil, errors.Join(append(errs, stepcontext.Of(job).HoldAll())...)
				})
				policy := map[bool]string{true: `"skip_and_continue"`, false: `"stop"`}[how == "skipped" || how == "not listed"]
				id := w.Enqueue(w.Job(fmt.Sprintf(`{"name": "names", "steps": [{"type": "demo.name", "config": {"key": "secret:acme/key"}},
					{"type": "demo.deliver", "failure_policy": %s, "config": {"from": "a.txt"}}]}`, policy)), nil)
				w.rest()
				outage.Store(how != "completed without an attempt, while the secret can be had")
				if err := act(w, id); err != nil {
					t.Fatal(err)
				}
				w.rest()
				want := "names that are not UTF-8: 1; names with a secret in them: 1"
				for range 3 {
					k := w.kept()
					text, _ := json.Marshal(w.Wait(id).Execution)
					if all := string(text) + fmt.Sprint(k) + w.Log(); secretIn(all, canarySecrets["plain"]) != "" {
						t.Errorf("the secret is shown in %s", all)
					}
					if outage.Load() && how != "skipped" && how != "cancelled" {
						if len(k.Files) != 0 || k.Problem == "" {
							t.Errorf("while the secret can't be had: %+v", k)
						}
						outage.Store(false)
					} else if len(k.Files) != 1 || k.Files[0].Path != "a.txt" || k.Count != 3 || k.Problem != want {
						t.Errorf("kept: %+v", k)
					}
					time.Sleep(time.Hour)
					synctest.Wait()
				}
				outage.Store(false)
				if _, err := w.Engine.DiscardKept(t.Context(), id, []string{"a.txt"}, by); err != nil {
					t.Fatal(err)
				}
				if k := w.kept(); len(k.Files) != 0 || k.Count != 2 || k.Problem != want || len(w.places(id, "a.txt")) != 0 {
					t.Errorf("after the discard: %+v, %q", k, w.places(id, "a.txt"))
				}
			})
		})
	}
}

// TestKeptFilesOfAnEarlierWorkspace begins an execution again elsewhere while its first workspace
// holds the only copy of a file. When that execution is over, the engine with the first
// workspace lists the file, and discards it.
func TestKeptFilesOfAnEarlierWorkspace(t *testing.T) {
	by := courier.By{Actor: "ops", Reason: "the disk is gone"}
	for _, completes := range []bool{false, true} {
		take(t, engine.Options{WorkspaceID: "first"}, func(t *testing.T, w *taking) {
			id := w.start("a.txt", "demo.take", `"stop"`, false)
			if err := w.Engine.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			elsewhere := w.AddEngine(&engine.Options{Workspace: t.TempDir(), WorkspaceID: "second", Roots: []string{w.in, w.out}})
			if err := elsewhere.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if completes { // with another file of that name
				w.fails.Store(false)
				if err := os.WriteFile(filepath.Join(w.in, "a.txt"), []byte("another"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			x, err := elsewhere.Resume(t.Context(), id, &courier.ResumeOptions{Elsewhere: true, By: by})
			if err == nil && !completes {
				w.rest()
				x, err = elsewhere.Cancel(t.Context(), id, &courier.CancelOptions{By: by})
			}
			if err != nil {
				t.Fatal(err)
			}
			w.rest()
			again := w.AddEngine(&engine.Options{Workspace: w.work, WorkspaceID: "first"})
			if err := again.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.rest()
			if k := w.kept(); k.Workspace != "first" || len(k.Files) != 1 || k.Files[0].Path != "a.txt" || len(w.places(id, "a.txt")) != 1 {
				t.Errorf("%s: kept %+v", x.State, k)
			}
			if _, err := elsewhere.DiscardKept(t.Context(), id, []string{"a.txt"}, by); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if list, err := again.Executions().Kept(t.Context(), store.Filter{}); err != nil || len(list) != 0 || exists(t, filepath.Join(w.work, string(id))) {
				t.Errorf("after the discard: %+v, %v", list, err)
			}
			if strings.Contains(w.Log(), "report kept files") {
				t.Error("a report was refused")
			}
		})
	}
}

// TestItemsDealtWithKeepTheirFiles has a failed item or block that holds the only copy of a file
// accepted, skipped or rescued, by the job or by an operator, in a way that does not put the file
// elsewhere: the copy stays when the execution completes.
func TestItemsDealtWithKeepTheirFiles(t *testing.T) {
	rescue := []courier.StepSpec{{Type: "flow.rescue", Config: map[string]any{}}, {Type: "demo.tell"}}
	for how, deal := range map[string]func(*courier.ResumeOptions, []courier.ItemPath){
		"accepted":            func(o *courier.ResumeOptions, items []courier.ItemPath) { o.Accept = items },
		"skipped":             func(o *courier.ResumeOptions, items []courier.ItemPath) { o.SkipItems = items },
		"rescued by operator": func(o *courier.ResumeOptions, items []courier.ItemPath) { o.Rescue = items },
		"rescued":             nil,
		"rescued block":       nil,
	} {
		t.Run(how, func(t *testing.T) {
			take(t, engine.Options{}, func(t *testing.T, w *taking) {
				w.Stub("demo.tell", nil)
				job := w.job("a.txt", "file.move", `"stop"`, true)
				loop := slices.IndexFunc(job.Steps, func(s courier.StepSpec) bool { return s.Type == "flow.foreach" })
				delete(job.Steps[loop].Config, "then")
				end := slices.IndexFunc(job.Steps, func(s courier.StepSpec) bool { return s.Type == "flow.end" })
				switch how {
				case "rescued by operator":
					rescue[0].Config["no_rescue_on"] = []any{"error"}
					job.Steps = slices.Insert(job.Steps, end, rescue...)
				case "rescued":
					delete(rescue[0].Config, "no_rescue_on")
					job.Steps = slices.Insert(job.Steps, end, rescue...)
				case "rescued block":
					delete(rescue[0].Config, "no_rescue_on")
					job.Steps = slices.Insert(job.Steps, end, append(slices.Clone(rescue), courier.StepSpec{Type: "flow.end"})...)
					job.Steps = slices.Insert(job.Steps, loop+1, courier.StepSpec{Type: "flow.try"})
				}
				if err := os.WriteFile(filepath.Join(w.in, "a.txt"), []byte("a.txt"), 0o600); err != nil {
					t.Fatal(err)
				}
				id := w.Enqueue(job, nil)
				w.rest()
				if deal != nil {
					items, err := w.Engine.Executions().FailedItems(t.Context(), id)
					if err != nil || len(items) != 1 {
						t.Fatalf("%+v, %v", items, err)
					}
					opt := &courier.ResumeOptions{By: courier.By{Actor: "ops", Reason: "sent by mail"}}
					deal(opt, []courier.ItemPath{items[0].ItemPath})
					if _, err := w.Engine.Resume(t.Context(), id, opt); err != nil {
						t.Fatal(err)
					}
				}
				w.rest()
				x := w.Wait(id).RequireState(courier.Completed)
				if got := w.places(id, "a.txt"); !x.HoldsOnlyCopies() || len(got) != 1 || got[0] == "target" {
					t.Errorf("only copies %+v; the file is in %q", x.OnlyCopies, got)
				}
			})
		})
	}
}
