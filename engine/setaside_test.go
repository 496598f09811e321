package engine_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store"
)

// fetch starts a job that moves each file that a list finds to one name in the workspace, and
// delivers it under the name that it had, which is also what is in it.
func (w *taking) fetch(typ, policy, loop string) courier.ExecutionID {
	whole := `"stop"`
	if strings.Contains(policy, "retry_job") {
		policy, whole = "null", policy
	}
	id := w.Enqueue(w.Job(fmt.Sprintf(`{"name": "fetch", "failure_policy": %s, "steps": [
		{"id": "look", "type": "file.list", "config": {"path": %q}}, {"type": "flow.foreach", "config": {"source": "context:look.file_list"%s}},
		{"type": %q, "config": {"source_path": "context:loop.current_item.path", "destination_path": "in.txt"}},
		{"type": "demo.deliver", "failure_policy": %s, "config": {"from": "in.txt", "to": "context:loop.current_item.name"}}, {"type": "flow.end"}]}`,
		whole, filepath.ToSlash(w.in), loop, typ, policy)), nil)
	w.rest()
	return id
}

// put puts files to where the list looks.
func (w *taking) put(names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(w.in, name), []byte(name), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestFilesOfOneName fails to deliver b, and goes on with c under the name that b had in the
// workspace. If b is not delivered before, it stays, and is among the kept files.
func TestFilesOfOneName(t *testing.T) {
	by := courier.By{Actor: "ops", Reason: "so"}
	resume := func(opt courier.ResumeOptions) func(*taking, courier.ExecutionID) error {
		return func(w *taking, id courier.ExecutionID) error {
			opt.By = by
			return errOf(w.Engine.Resume(w.t.Context(), id, &opt))
		}
	}
	wait := func(*taking, courier.ExecutionID) error { return nil }
	for name, c := range map[string]struct {
		policy, loop string
		later        bool // c comes when the delivery of b has failed
		act          func(*taking, courier.ExecutionID) error
		stays        bool
	}{
		"goes on":           {`"stop"`, "", false, resume(courier.ResumeOptions{}), false},
		"another try":       {`{"type": "retry_step", "max_retries": 1, "backoff_base_seconds": 60}`, "", false, wait, false},
		"another attempt":   {`{"type": "retry_job", "max_retries": 1, "backoff_base_seconds": 60}`, "", true, wait, true},
		"from the list":     {`"stop"`, "", true, resume(courier.ResumeOptions{From: "0", Force: true}), true},
		"skipped":           {`"skip_and_continue"`, "", false, wait, true},
		"skipped by a hand": {`"stop"`, "", false, resume(courier.ResumeOptions{Skip: true}), true},
		"an item given up":  {`"stop"`, `, "on_item_failure": "continue", "then": "complete"`, false, wait, true},
	} {
		for _, typ := range []string{"file.move", "demo.take"} {
			t.Run(name+" "+typ, func(t *testing.T) {
				take(t, engine.Options{}, func(t *testing.T, w *taking) {
					w.fails.Store(false)
					w.failing.Store("b")
					if w.put("a", "b"); !c.later {
						w.put("c")
					}
					id := w.fetch(typ, c.policy, c.loop)
					w.failing.Store("")
					if c.later {
						w.put("c")
					}
					if err := c.act(w, id); err != nil {
						t.Fatal(err)
					}
					time.Sleep(10 * time.Minute)
					x := w.Wait(id).RequireState(courier.Completed)
					const aside = ".notes/aside/1/in.txt"
					want := []string{"a", "b", "c"}
					if c.stays {
						want = []string{"a", "c"}
						if x.OnlyCopies == nil || !slices.Contains(x.OnlyCopies.Files, courier.File{Path: aside, Size: 1}) {
							t.Errorf("only copies: %+v", x.OnlyCopies)
						}
						if text, err := os.ReadFile(filepath.Join(w.work, string(id), aside)); err != nil || string(text) != "b" {
							t.Errorf("kept aside: %q, %v", text, err)
						}
					} else if x.OnlyCopies != nil {
						t.Errorf("only copies: %+v", x.OnlyCopies)
					}
					var got []string
					entries, err := os.ReadDir(w.out)
					for _, d := range entries {
						got = append(got, d.Name())
					}
					if err != nil || !slices.Equal(got, want) {
						t.Errorf("delivered: %q, %v; want %q", got, err, want)
					}
				})
			})
		}
	}
}

// TestFilesOfOneNameAfterAnyActs has files come while operators do random things with the
// execution that moves them all to one name. Each file stays somewhere; in the end it is where
// the list looks, was delivered, or is among the kept files.
func TestFilesOfOneNameAfterAnyActs(t *testing.T) {
	by := courier.By{Actor: "ops", Reason: "any"}
	aside := 0
	for seed := range uint64(60) {
		take(t, engine.Options{}, func(t *testing.T, w *taking) {
			r := rand.New(rand.NewPCG(seed, 3))
			policy := []string{`"stop"`, `"skip_and_continue"`, `{"type": "retry_job", "max_retries": 2, "backoff_base_seconds": 60}`, `{"type": "retry_step", "max_retries": 2, "backoff_base_seconds": 60}`}[r.IntN(4)]
			loop := ""
			if r.IntN(2) == 0 && !strings.Contains(policy, "retry_job") {
				loop = `, "on_item_failure": "continue", "then": "complete"`
			}
			typ := []string{"file.move", "demo.take"}[r.IntN(2)]
			did := []string{typ + " " + policy + loop}
			names := []string{"a", "b"}
			w.put(names...)
			id := w.fetch(typ, policy, loop)
			for range 12 {
				var act string
				var err error
				switch r.IntN(8) {
				case 0:
					act, err = "pause", errOf(w.Engine.Pause(t.Context(), id, by))
				case 1:
					act, err = "resume", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by}))
				case 2:
					act, err = "resume from the list", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by, From: "0", Force: true}))
				case 3:
					act, err = "skip", errOf(w.Engine.Resume(t.Context(), id, &courier.ResumeOptions{By: by, Skip: true}))
				case 4:
					fails, slow := r.IntN(2) == 0, r.IntN(4) == 0
					w.fails.Store(fails)
					w.slow.Store(slow)
					act = fmt.Sprintf("fails %v, slow %v", fails, slow)
				case 5, 6:
					act = "another file"
					names = append(names, string(rune('a'+len(names))))
					w.put(names[len(names)-1])
				case 7:
					act = "wait"
					time.Sleep(time.Duration(r.IntN(300)) * time.Second)
				}
				w.rest()
				did = append(did, fmt.Sprintf("%s (%v)", act, err))
				if lost := w.missing(names, w.in, w.out, w.work); len(lost) > 0 {
					t.Fatalf("seed %d: %q are nowhere after %s", seed, lost, strings.Join(did, ", "))
				}
			}
			_, _ = w.Engine.Cancel(t.Context(), id, &courier.CancelOptions{By: by}) // unless it is over
			time.Sleep(time.Hour)
			list, err := w.Engine.Executions().Kept(t.Context(), store.Filter{})
			if err != nil {
				t.Fatal(err)
			}
			places := []string{w.in, w.out}
			for _, k := range list {
				for _, f := range k.Files {
					places = append(places, filepath.Join(w.work, string(id), f.Path))
					if strings.Contains(f.Path, "aside") {
						aside++
					}
				}
			}
			if lost := w.missing(names, places...); len(lost) > 0 {
				t.Errorf("seed %d: %q are in no list after %s", seed, lost, strings.Join(did, ", "))
			}
		})
	}
	if aside < 10 {
		t.Errorf("%d files were kept aside", aside)
	}
}

// missing returns those files, known by their contents, that are in none of the places.
func (w *taking) missing(names []string, places ...string) (lost []string) {
	w.t.Helper()
	found := make(map[string]bool)
	for _, place := range places {
		err := filepath.WalkDir(place, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(p)
			found[string(text)] = true
			return err
		})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return found[name] })
}
