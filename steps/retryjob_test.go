package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
)

var errLater = errors.New("a later step has failed")

// anothers is what a file holds that somebody else has put in place of one that
// was taken away.
const anothers = "another's"

// A rerun is a job that is begun again by retry_job, after a step that fails was
// put behind any of its steps.
type rerun struct {
	*couriertest.Harness
	t     *testing.T
	world *world
	steps []object
	work  string // the workspace
	fails int    // failures to come
	left  func() // called at the first failure; may be nil
	files map[string]string
	then  map[string]string // at the first failure, if the job is never completed
}

// newRerun lays the files of c out, and serves them.
func newRerun(t *testing.T, h *couriertest.Harness, c rerunCase) *rerun {
	t.Helper()
	w, err := newWorld(h.Dir, sftpserver.Options{}, ftpserver.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	steps.Register(h.Registry, w.options)
	r := &rerun{Harness: h, t: t, world: w, steps: c.steps}
	h.Stub("demo.fails", func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		if r.fails--; r.fails < 0 {
			return nil, nil
		}
		if r.left != nil {
			r.left()
			r.left = nil
		}
		var err error
		if r.then == nil {
			r.then, err = r.all(job)
		}
		return nil, errors.Join(errLater, err)
	})
	h.Stub("demo.looks", func(_ context.Context, job *courier.Context, _ map[string]any) (map[string]any, error) {
		var err error
		r.files, err = r.all(job)
		return nil, err
	})
	for name, content := range c.files {
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(filepath.Join(h.Dir, name), 0o755)
		} else {
			h.WriteFile(name, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range c.before {
		r.run(object{"name": "before", "steps": []object{s}}).RequireState(courier.Completed)
	}
	return r
}

func (r *rerun) run(job object) *couriertest.Result {
	r.t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.Run(r.Job(strings.ReplaceAll(string(text), "$B", filepath.ToSlash(r.Dir)+"/B")), nil)
}

// job executes the job with the step that fails behind the first n steps.
func (r *rerun) job(n, retries int) *couriertest.Result {
	r.t.Helper()
	list := slices.Insert(slices.Clone(r.steps), n, object{"type": "demo.fails"})
	return r.run(object{
		"name": "again", "steps": append(list, object{"type": "demo.looks"}),
		"failure_policy": object{"type": "retry_job", "max_retries": retries},
	})
}

// outside lists what is outside of the workspace.
func (r *rerun) outside() map[string]string {
	files := make(map[string]string)
	for _, dir := range []string{"B", "sftp", "ftp"} {
		r.look(filepath.Join(r.Dir, dir), dir, files)
	}
	return files
}

// all lists what is in the workspace too.
func (r *rerun) all(job *courier.Context) (map[string]string, error) {
	root, _, err := job.Files().Root(".")
	if err != nil {
		return nil, err
	}
	r.work = root.Name()
	files := r.outside()
	r.look(r.work, "work", files)
	return files, nil
}

var (
	timeInName = regexp.MustCompile(`-\d{8}T\d{6}\.\d{6}Z`)
	ofAttempt  = regexp.MustCompile(`^work/again-\d+/`)
)

// look adds what is in dir, by names that are the same in all attempts. What
// differs by its nature counts as there or not.
func (r *rerun) look(dir, as string, files map[string]string) {
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		below, err := filepath.Rel(dir, p)
		name := ofAttempt.ReplaceAllString(timeInName.ReplaceAllString(as+"/"+filepath.ToSlash(below), "-TIME"), "work/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == note.Top || strings.HasSuffix(d.Name(), ".courier-tmp")):
			return fs.SkipDir
		case as == "work" && (d.IsDir() || strings.Contains(d.Name(), ".courier-tmp")):
			return nil
		case d.IsDir():
			files[name] = "directory"
			return nil
		}
		content, err := os.ReadFile(p)
		if slices.Contains([]string{".pgp", ".sig", ".zip", ".tar", ".gz", ".zst"}, filepath.Ext(name)) && string(content) != anothers {
			content = []byte("there")
		}
		if had, ok := files[name]; ok {
			content = append(content, " and "+had...)
		}
		files[name] = string(content)
		return err
	})
	if err != nil {
		r.t.Error(err)
	}
}

// same fails unless what is there is what is wanted.
func (r *rerun) same(what string, got, want map[string]string) {
	r.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[name]; !ok {
			r.t.Errorf("%s: %s is missing", what, name)
		} else if g != want[name] {
			r.t.Errorf("%s: %s holds %.100q, want %.100q", what, name, g, want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; !ok {
			r.t.Errorf("%s: %s is too many, with %.100q", what, name, got[name])
		}
	}
}

// others puts files of somebody else where the job has taken files away, and
// returns them.
func (r *rerun) others(before map[string]string) map[string]string {
	made, now := make(map[string]string), r.outside()
	for name, content := range before {
		if _, there := now[name]; !there && content != "directory" {
			made[name] = anothers
			p := filepath.Join(r.Dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(made[name]), 0o644), os.Chtimes(p, time.Time{}, time.Unix(1e9, 0))); err != nil {
				r.t.Error(err)
			}
		}
	}
	return made
}

// TestRetryJob fails each job of reruns behind each of its steps, once and twice,
// and has the engine begin it again: it completes with the same files as without
// the failure, nothing is lost or doubled, what another has put in place of what
// was taken away stays, and a job that is given up says why it failed at first.
func TestRetryJob(t *testing.T) {
	cases := reruns()
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		if raced.On && i%4 != 0 {
			continue // the run without the race detector has them
		}
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			in := func(f func(r *rerun)) {
				t.Helper()
				couriertest.Virtual(t, &engine.Options{}, func(t *testing.T, h *couriertest.Harness) {
					t.Helper()
					f(newRerun(t, h, c))
				})
			}
			var inside, outside map[string]string
			in(func(r *rerun) {
				r.job(len(c.steps), 3).RequireState(courier.Completed)
				inside, outside = r.files, r.outside()
			})
			for n := 1; n <= len(c.steps); n++ {
				if c.takes > 0 && n >= c.takes {
					in(func(r *rerun) { r.givenUp(n) })
					continue
				}
				most := 1 // and twice behind the last step
				if n == len(c.steps) {
					most = 2
				}
				for fails := 1; fails <= most; fails++ {
					in(func(r *rerun) {
						r.fails = fails
						what := fmt.Sprintf("failed %d times behind step %d", fails, n-1)
						x := r.job(n, 3)
						if x.State != courier.Completed || x.Attempt != fails+1 {
							r.t.Errorf("%s: the job is %s in attempt %d: %v", what, x.State, x.Attempt, x.Err)
							return
						}
						r.same(what, r.files, inside)
						r.same(what+", in the end", r.outside(), outside)
					})
				}
			}
			if c.takes > 0 {
				return
			}
			in(func(r *rerun) {
				r.fails = 10
				x := r.job(len(c.steps), 2).RequireState(courier.Failed)
				if x.Attempt != 3 || !strings.Contains(x.Failure.Message, errLater.Error()) || strings.Contains(x.Failure.Message, "no such file") {
					r.t.Errorf("given up in attempt %d: %s", x.Attempt, x.Failure.Message)
				}
				r.same("given up", r.outside(), outside)
			})
			if c.sourceChanges {
				return
			}
			in(func(r *rerun) {
				r.fails = 1
				before, made := r.outside(), map[string]string(nil)
				r.left = func() { made = r.others(before) }
				x := r.job(len(c.steps), 3)
				if x.State != courier.Completed {
					r.t.Errorf("with another's files the job is %s in attempt %d: %v", x.State, x.Attempt, x.Err)
				}
				want := maps.Clone(outside)
				for name, content := range made {
					want[name] = content
					for dir := filepath.Dir(name); strings.Contains(dir, "/"); dir = filepath.Dir(dir) {
						want[dir] = "directory"
					}
				}
				r.same("with another's files", r.outside(), want)
			})
		})
	}
}

// givenUp fails the job where a step has taken away what an earlier one reads: it
// can't be begun again, but it says why it failed, and all that its first attempt
// had is there.
func (r *rerun) givenUp(n int) {
	r.t.Helper()
	r.fails = 1
	what := fmt.Sprintf("failed behind step %d, which takes away what is read", n-1)
	x := r.job(n, 1)
	if x.State != courier.Failed || !strings.Contains(x.Failure.Message, errLater.Error()) {
		r.t.Errorf("%s: the job is %s: %v", what, x.State, x.Err)
		return
	}
	now := r.outside()
	r.look(r.work, "work", now)
	for name, want := range r.then {
		if now[name] != want {
			r.t.Errorf("%s: %s holds %.100q, want %.100q", what, name, now[name], want)
		}
	}
}

// TestRetryJobCoversAll fails if a step type is in no job of TestRetryJob. job.fail can
// be in none, since it ends every attempt for good.
func TestRetryJobCoversAll(t *testing.T) {
	there := make(map[string]bool)
	for _, c := range reruns() {
		for _, s := range c.steps {
			there[s["type"].(string)] = true
		}
	}
	reg := registry()
	for _, key := range reg.Keys() {
		if typ, ok := reg.Lookup(key); ok && !there[key] && typ.Key() == key && !strings.HasPrefix(key, "ftps.") && key != "job.fail" {
			t.Errorf("no job has the step %s", key)
		}
	}
}
