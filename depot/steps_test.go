package depot_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/store"
)

// newJob is a context of the execution in a workspace of the test.
func newJob(t testing.TB, files map[string]string) *courier.Context {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		p := filepath.Join(dir, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(p), 0o755))
		must(t, os.WriteFile(p, []byte(content), 0o644))
	}
	job := courier.NewContext(courier.ContextConfig{Execution: running, Workspace: dir, Step: 1, Attempt: 1})
	t.Cleanup(func() { job.Close() })
	return job
}

func files(pairs ...string) *couriertest.Depot {
	d := new(couriertest.Depot)
	for i := 0; i < len(pairs); i += 2 {
		if err := d.Put(pairs[i], pairs[i+1]); err != nil {
			panic(err)
		}
	}
	return d
}

// wantError checks an error that nobody can cure by repeating.
func wantError(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if err == nil || !courier.IsPermanent(err) {
		t.Errorf("%s: %v; want a permanent error", what, err)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s: the error %q lacks %q", what, err, w)
		}
	}
}

func TestFetch(t *testing.T) {
	in := func(name string) string { return depot.InputKey(running, name) }
	d := files(in("b.csv"), "b", in("a.csv"), "aa", depot.ResultKey(running, "r"), "r", depot.InputKey("another", "c"), "c")
	job := newJob(t, nil)
	out, err := depot.Fetch{Depot: d}.Execute(t.Context(), job, depot.FetchConfig{})
	if err != nil || out.FileCount != 2 || out.Size != 3 || out.FetchedDirectory != "1/1" || !slices.Equal(out.FetchedFiles, []string{"1/1/a.csv", "1/1/b.csv"}) {
		t.Errorf("fetch: %+v, %v", out, err)
	}
	want := []courier.File{
		{Path: "1/1/a.csv", Size: 2}, {Path: in("a.csv"), Size: 2, Connection: "depot", Received: true},
		{Path: "1/1/b.csv", Size: 1}, {Path: in("b.csv"), Size: 1, Connection: "depot", Received: true},
	}
	if got := job.Reports().Files; !slices.Equal(got, want) || job.Reports().Bytes != 3 {
		t.Errorf("reports: %+v, %d bytes", got, job.Reports().Bytes)
	}
	for name, c := range map[string]struct {
		d     depot.Depot
		cfg   depot.FetchConfig
		words []string
	}{
		"a missing name":    {d, depot.FetchConfig{Names: []string{"a.csv", "x.csv", "y.csv"}}, []string{`"x.csv", "y.csv"`, "it has 2 input files"}},
		"bad names":         {d, depot.FetchConfig{Names: []string{"../a", "b\x00"}}, []string{`names[0]: "../a"`, `names[1]: "b\x00"`}},
		"nothing came":      {new(couriertest.Depot), depot.FetchConfig{}, []string{"the execution has no input files", "ignore_missing"}},
		"two that are one":  {files(in("A.csv"), "1", in("a.CSV"), "2"), depot.FetchConfig{}, []string{"A.csv", "a.CSV", "rename"}},
		"a directory above": {d, depot.FetchConfig{OutputDirectory: "../x"}, []string{"leads out of the workspace"}},
	} {
		_, err := depot.Fetch{Depot: c.d}.Execute(t.Context(), newJob(t, nil), c.cfg)
		wantError(t, name, err, c.words...)
	}
	out, err = depot.Fetch{Depot: d}.Execute(t.Context(), newJob(t, nil), depot.FetchConfig{Names: []string{"x", "a.csv", "a.csv"}, IgnoreMissing: true})
	if err != nil || out.FileCount != 1 {
		t.Errorf("with ignore_missing: %+v, %v", out, err)
	}
	_, err = depot.Fetch{Depot: d}.Execute(t.Context(), courier.NewContext(courier.ContextConfig{}), depot.FetchConfig{})
	wantError(t, "without an execution", err, "ContextConfig")
}

// rotten is a depot whose storage changes content, or cuts it.
type rotten struct {
	depot.Depot
	content string
}

type rottenObject struct {
	depot.Object
	r io.Reader
}

func (r rotten) Open(ctx context.Context, key string) (depot.Object, error) {
	o, err := r.Depot.Open(ctx, key)
	return rottenObject{o, strings.NewReader(r.content)}, err
}

func (o rottenObject) Read(p []byte) (int, error) { return o.r.Read(p) }

// TestFetchVerifies: what is not the content that was uploaded gets no name.
func TestFetchVerifies(t *testing.T) {
	d := files(depot.InputKey(running, "a"), "content")
	for _, content := range []string{"Content", "conten", "content and more", ""} {
		job := newJob(t, map[string]string{"in/a": "old"})
		_, err := depot.Fetch{Depot: rotten{d, content}}.Execute(t.Context(), job, depot.FetchConfig{OutputDirectory: "in"})
		if err == nil || courier.ClassOf(err) != courier.ReasonIntegrity {
			t.Errorf("%q is taken: %v", content, err)
		}
		root, rel, err := job.Files().Root("in/a")
		must(t, err)
		if got, err := root.ReadFile(rel); string(got) != "old" {
			t.Errorf("%q: the file is %q, %v", content, got, err)
		}
	}
}

func TestKeep(t *testing.T) {
	res := func(name string) string { return depot.ResultKey(running, name) }
	d := files(res("may/x"), "there before")
	work := map[string]string{"a.csv": "a", "out/b.csv": "bb", "out/d/c.csv": "ccc", "out/d/c.txt": "t", "out/.courier-tmp-1": "unfinished", ".notes/held": "notes"}
	job := newJob(t, work)
	cfg := depot.KeepConfig{SourcePath: "a.csv", SourcePaths: []courier.Pattern{"out/**/*.csv"}, Prefix: "may"}
	for range 2 {
		out, err := depot.Keep{Depot: d}.Execute(t.Context(), job, cfg)
		if err != nil || out.FileCount != 3 || out.Size != 6 || !slices.Equal(out.ResultNames, []string{"may/a.csv", "may/b.csv", "may/d/c.csv"}) {
			t.Errorf("keep: %+v, %v", out, err)
		}
	}
	if got, _ := d.Content(res("may/d/c.csv")); got != "ccc" {
		t.Errorf("the result is %q", got)
	}
	if f := job.Reports().Files; len(f) != 6 || f[0] != (courier.File{Path: res("may/a.csv"), Size: 1, Connection: "depot"}) {
		t.Errorf("reports: %+v", f)
	}
	out, err := depot.Keep{Depot: d}.Execute(t.Context(), newJob(t, work), depot.KeepConfig{SourcePath: "**"})
	if err != nil || !slices.Equal(out.ResultNames, []string{"a.csv", "out/b.csv", "out/d/c.csv", "out/d/c.txt"}) {
		t.Errorf("keep all: %+v, %v", out, err)
	}
	for name, c := range map[string]struct {
		cfg   depot.KeepConfig
		words []string
	}{
		"nothing matches":         {depot.KeepConfig{SourcePath: "*.zip"}, []string{"source_path", `"*.zip"`, "ignore_missing"}},
		"a directory":             {depot.KeepConfig{SourcePaths: []courier.Pattern{"out"}}, []string{"source_paths", "add /**"}},
		"a bad directory":         {depot.KeepConfig{SourcePath: "a.csv", Prefix: "../x"}, []string{"prefix", `"../x"`}},
		"two that are one":        {depot.KeepConfig{SourcePaths: []courier.Pattern{"a.csv", "twin/a.csv"}}, []string{"a.csv", "twin/a.csv", "both"}},
		"a file and a directory":  {depot.KeepConfig{SourcePath: "a.csv", Prefix: "may/x"}, []string{`"may/x"`, "can't be a file and the directory"}},
		"a malformed pattern":     {depot.KeepConfig{SourcePath: "out/*[a"}, []string{"malformed"}},
		"a path out of the space": {depot.KeepConfig{SourcePath: "../*"}, []string{"leads out of the workspace"}},
	} {
		_, err := depot.Keep{Depot: d}.Execute(t.Context(), newJob(t, map[string]string{"a.csv": "a", "twin/a.csv": "b", "out/b.csv": "b"}), c.cfg)
		wantError(t, name, err, c.words...)
	}
	out, err = depot.Keep{Depot: d}.Execute(t.Context(), newJob(t, nil), depot.KeepConfig{SourcePaths: []courier.Pattern{"x", "*.y"}, IgnoreMissing: true})
	if err != nil || out.FileCount != 0 || out.ResultNames == nil {
		t.Errorf("with ignore_missing: %+v, %v", out, err)
	}
	if _, err := (depot.Keep{Depot: d}).Execute(t.Context(), newJob(t, nil), depot.KeepConfig{SourcePath: "x"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestKeepWaits: a full depot delays depot.keep until there is room, for 15 minutes, or until
// its context ends.
func TestKeepWaits(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) depot.Depot{
		"directory": func(t *testing.T) depot.Depot { return openDir(t, 60_000) },
		"memory":    func(*testing.T) depot.Depot { return &couriertest.Depot{Most: 60_000} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := open(t)
				fill, err := d.Create(t.Context(), depot.InputKey("other", "a"))
				must(t, err)
				defer fill.Close()
				_, err = fill.Write(make([]byte, 40_000))
				must(t, err)
				keep := func(ctx context.Context) (time.Duration, error) {
					began := time.Now()
					_, err := depot.Keep{Depot: d}.Execute(ctx, newJob(t, map[string]string{"a": strings.Repeat("x", 30_000)}), depot.KeepConfig{SourcePath: "a"})
					return time.Since(began), err
				}
				if took, err := keep(t.Context()); !errors.Is(err, depot.ErrFull) || courier.IsPermanent(err) || took < 14*time.Minute || took > 15*time.Minute {
					t.Errorf("a depot that stays full: %v after %v", err, took)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
				defer cancel()
				if took, err := keep(ctx); !errors.Is(err, depot.ErrFull) || !errors.Is(err, context.DeadlineExceeded) || took != 3*time.Minute {
					t.Errorf("until the timeout: %v after %v", err, took)
				}
				time.AfterFunc(5*time.Minute, func() { fill.Close() })
				if took, err := keep(t.Context()); err != nil || took < 5*time.Minute || took > 6*time.Minute {
					t.Errorf("room after 5 minutes: %v after %v", err, took)
				}
			})
		})
	}
}

// TestRoomForResults: inputs leave a quarter of a depot to results.
func TestRoomForResults(t *testing.T) {
	d, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 1 << 20})
	must(t, err)
	defer d.Close()
	put := func(key string, size int) error {
		p, err := d.Create(t.Context(), key)
		if err != nil {
			return err
		}
		defer p.Close()
		if _, err = p.Write(make([]byte, size)); err == nil {
			_, err = p.Commit()
		}
		return err
	}
	if err := put(depot.InputKey("a", "a"), 800<<10); !errors.Is(err, depot.ErrFull) || !strings.Contains(err.Error(), "ForResults") {
		t.Errorf("an input of 800 KiB: %v", err)
	}
	must(t, put(depot.InputKey("a", "a"), 700<<10))
	if err := put(depot.InputKey("a", "b"), 100<<10); !errors.Is(err, depot.ErrFull) {
		t.Errorf("another of 100 KiB: %v", err)
	}
	must(t, put(depot.ResultKey("b", "b"), 200<<10))
	if _, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: 1000, ForResults: 1000}); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("no room for inputs: %v", err)
	}
}

// TestKeepReplaces: a result with other content is replaced, also one of the same size;
// one with the same content is not written again.
func TestKeepReplaces(t *testing.T) {
	key := depot.ResultKey(running, "a")
	for content, written := range map[string]int{"same": 0, "else": 1, "longer": 1} {
		d, n := files(key, "same"), 0
		counting := meddling{d, func(op, _ string) {
			if op == "create" {
				n++
			}
		}}
		_, err := depot.Keep{Depot: counting}.Execute(t.Context(), newJob(t, map[string]string{"a": content}), depot.KeepConfig{SourcePath: "a"})
		if got, _ := d.Content(key); err != nil || got != content || n != written {
			t.Errorf("%q: %v; the result is %q and was written %d times", content, err, got, n)
		}
	}
}

// TestValidate: a dry run finds all mistakes at once, and looks whether the depot answers.
func TestValidate(t *testing.T) {
	d := new(couriertest.Depot)
	must(t, depot.Fetch{Depot: d}.Validate(t.Context(), newJob(t, nil), depot.FetchConfig{Names: []string{"a"}, OutputDirectory: "in"}))
	must(t, depot.Keep{Depot: d}.Validate(t.Context(), newJob(t, nil), depot.KeepConfig{SourcePath: "out/**", Prefix: "a/b"}))
	away := down{d}
	err := depot.Fetch{Depot: away}.Validate(t.Context(), newJob(t, nil), depot.FetchConfig{Names: []string{"a/b", "."}, OutputDirectory: "../in"})
	for _, w := range []string{"names[0]", "names[1]", "leads out", "the depot can't be used: no answer"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("fetch: %v lacks %q", err, w)
		}
	}
	err = depot.Keep{Depot: away}.Validate(t.Context(), newJob(t, nil), depot.KeepConfig{SourcePath: "x/*[", SourcePaths: []courier.Pattern{"../b"}, Prefix: "a/../b"})
	for _, w := range []string{"source_path: ", "source_paths: ", "prefix: ", "the depot can't be used: no answer"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("keep: %v lacks %q", err, w)
		}
	}
}

// down is a depot that does not answer.
type down struct{ depot.Depot }

func (down) List(context.Context, string) ([]depot.Info, error) { return nil, errors.New("no answer") }

// TestInEngine: a job fetches what came with it, works on it and keeps the outcome; then
// retention removes the files, and keeps the mark.
func TestInEngine(t *testing.T) {
	d := openDir(t, 0)
	h := couriertest.New(t, nil)
	depot.Register(h.Registry, d, nil)
	courier.RegisterFunc(h.Registry, "text.join", join, nil)
	job := courier.Job{Name: "join", Steps: []courier.StepSpec{
		{ID: "fetch", Type: "depot.fetch"},
		{ID: "join", Type: "text.join", Config: map[string]any{"files": "context:fetch.fetched_files"}},
		{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "out/**"}},
	}}
	if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	h.Start()
	n, err := h.Engine.Prepare(t.Context(), "join", nil)
	must(t, err)
	put := func(name, content string) {
		p, err := d.Create(t.Context(), depot.InputKey(n.ID, name))
		must(t, err)
		defer p.Close()
		_, err = io.WriteString(p, content)
		must(t, err)
		_, err = p.Commit()
		must(t, err)
	}
	put("b.txt", "world")
	put("a.txt", "hello ")
	_, err = h.Engine.EnqueueAll(t.Context(), []store.NewExecution{n})
	must(t, err)
	r := h.Wait(n.ID)
	r.RequireState(courier.Completed)
	o, err := d.Open(t.Context(), depot.ResultKey(n.ID, "joined.txt"))
	must(t, err)
	content, err := io.ReadAll(o)
	must(t, errors.Join(err, o.Close()))
	if string(content) != "hello world" {
		t.Errorf("the result is %q", content)
	}
	must(t, depot.CleanOnce(t.Context(), d, h.Engine.Executions(), nil))
	if _, removed, err := depot.Removed(t.Context(), d, n.ID); removed || err != nil {
		t.Errorf("after the end: removed %v, %v", removed, err)
	}
	must(t, depot.CleanOnce(t.Context(), d, h.Engine.Executions(), &depot.Retention{Keep: 1}))
	if _, removed, err := depot.Removed(t.Context(), d, n.ID); !removed || err != nil {
		t.Errorf("after retention: removed %v, %v", removed, err)
	}
}

type joinConfig struct {
	Files []string `json:"files"`
}

// join writes the files one after the other.
func join(_ context.Context, job *courier.Context, cfg joinConfig) (struct{}, error) {
	w, err := job.Files().Create("out/joined.txt")
	if err != nil {
		return struct{}{}, err
	}
	defer w.Close()
	for _, name := range cfg.Files {
		f, err := job.Files().Open(name)
		if err != nil {
			return struct{}{}, err
		}
		_, err = io.Copy(w, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return struct{}{}, err
		}
	}
	return struct{}{}, w.Commit()
}
