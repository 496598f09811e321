package courier_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/steptest"
)

// A fetchConfig is the configuration of a step that takes a partner's file.
type fetchConfig struct {
	File string `json:"file" courier:"required,path"`
	To   string `json:"to" courier:"path"`
	Flag string `json:"flag" courier:"path"` // says that the file is complete; removed with it
}

type fetchOutput struct {
	File  string `json:"file" file:"to"`
	Lines int    `json:"lines"`
}

// fetch is a step as a stranger writes it: it moves a file, counts its lines and removes
// another one, and remembers nothing.
func fetch(ctx context.Context, job *courier.Context, cfg fetchConfig) (fetchOutput, error) {
	files := job.Files()
	out := fetchOutput{File: cfg.To}
	if out.File == "" {
		out.File = path.Join(files.Dir(), "fetched")
	}
	if err := files.Move(ctx, cfg.File, out.File); err != nil {
		return out, err
	}
	r, err := files.Open(out.File)
	if err != nil {
		return out, err
	}
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		out.Lines++
	}
	if cfg.Flag == "" {
		return out, nil
	}
	return out, files.Remove(cfg.Flag)
}

// pack is a step that removes what it has packed, and whose output another program writes.
func pack(ctx context.Context, job *courier.Context, cfg fetchConfig) (fetchOutput, error) {
	files := job.Files()
	out := fetchOutput{File: cfg.To, Lines: 1}
	made := path.Join(files.Dir(), "made")
	if err := files.MkdirAll(files.Dir()); err != nil {
		return out, err
	}
	root, rel, err := files.Root(made)
	if err != nil {
		return out, err
	}
	if err := root.WriteFile(rel, []byte("packed"), 0o600); err != nil {
		return out, err
	}
	if err := files.Replace(ctx, cfg.To, made); err != nil {
		return out, err
	}
	return out, errors.Join(files.Remove(cfg.File), files.Remove(cfg.Flag))
}

// TestRepeatable holds steps that move and remove files, and know nothing of attempts, against
// the contract for retries.
func TestRepeatable(t *testing.T) {
	for _, c := range []struct {
		name           string
		step           func(context.Context, *courier.Context, fetchConfig) (fetchOutput, error)
		file, to, flag string // with R for a directory outside of the workspace, and S for another one
	}{
		{"into the workspace", fetch, "R/in.csv", "got/in.csv", ""},
		{"into the attempt's directory", fetch, "R/in.csv", "", ""},
		{"with a flag", fetch, "R/in.csv", "got/in.csv", "R/in.done"},
		{"out of the workspace", fetch, "in.csv", "R/deep/er/in.csv", "in.done"},
		{"outside", fetch, "R/in.csv", "R/done/in.csv", "S/in.done"},
		{"from one directory to another", fetch, "R/in.csv", "S/in.csv", ""},
		{"in the workspace", fetch, "in.csv", "out/in.csv", "in.done"},
		{"in the workspace to the attempt's directory", fetch, "in.csv", "", ""},
		{"pack in the workspace", pack, "in.csv", "out/x", "in.done"},
		{"pack outside", pack, "R/in.csv", "S/x", "R/in.done"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, steptest.Case{
				Register: func(r *courier.Registry) { courier.RegisterFunc(r, "partner.fetch", c.step, nil) },
				Setup: func(w *steptest.World) {
					w.Roots = append(w.Roots, filepath.Join(w.Dir, "second"))
					if err := os.Mkdir(w.Roots[1], 0o755); err != nil {
						w.Fatal(err)
					}
					at := func(name string) string {
						for prefix, dir := range map[string]string{"R/": w.Root, "S/": w.Roots[1]} {
							if rest, ok := strings.CutPrefix(name, prefix); ok {
								return filepath.Join(dir, rest)
							}
						}
						return name
					}
					cfg := fetchConfig{at(c.file), at(c.to), at(c.flag)}
					w.Write(cfg.File, "1\n2\n3\n")
					if cfg.Flag != "" {
						w.Write(cfg.Flag, "")
					}
					w.Config = cfg
				},
			})
		})
	}
}

// An effectWorld is a directory outside of a workspace, and the contexts of attempts.
type effectWorld struct {
	*testing.T
	work, out string
}

func newEffectWorld(t *testing.T) *effectWorld { return &effectWorld{t, t.TempDir(), t.TempDir()} }

// attempt returns the files of an attempt.
func (w *effectWorld) attempt(execution, attempt int) (courier.Files, *courier.Context) {
	w.Helper()
	job := courier.NewContext(courier.ContextConfig{
		Execution: "x", Step: 1, ExecutionAttempt: execution, Attempt: attempt, Workspace: w.work, Roots: []string{w.out},
	})
	w.T.Cleanup(func() { job.Close() })
	return job.Files(), job
}

func (w *effectWorld) write(name, text string) string {
	w.Helper()
	name = filepath.Join(w.out, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		w.Fatal(err)
	}
	return name
}

// want checks the content of a file; empty for none.
func (w *effectWorld) want(name, text string) {
	w.Helper()
	if got, err := os.ReadFile(name); string(got) != text || err != nil && (text != "" || !errors.Is(err, fs.ErrNotExist)) {
		w.Errorf("%s has %q, %v, want %q", filepath.Base(name), got, err, text)
	}
}

// TestCameMeanwhile checks that a file that has come in the place of one that an earlier
// attempt has taken away stays, unless the job has made it.
func TestCameMeanwhile(t *testing.T) {
	for _, execution := range []int{1, 2} {
		for _, made := range []bool{false, true} {
			t.Run(fmt.Sprint(execution, made), func(t *testing.T) {
				w := newEffectWorld(t)
				in, flag, to := w.write("in", "old"), w.write("flag", "old flag"), filepath.Join(w.out, "done", "in")
				do := func(files courier.Files) error {
					return errors.Join(files.Move(t.Context(), in, to), files.Remove(flag))
				}
				first, _ := w.attempt(1, 1)
				if err := do(first); err != nil {
					t.Fatal(err)
				}
				w.want(to, "old")
				w.want(in, "")
				w.want(flag, "")
				w.write("in", "new")
				w.write("flag", "new flag")
				second, job := w.attempt(execution, 2)
				if made {
					before, _ := w.attempt(execution, 1)
					if err := errors.Join(before.Wrote(in), before.Wrote(flag)); err != nil {
						t.Fatal(err)
					}
				}
				if err := do(second); err != nil {
					t.Fatal(err)
				}
				if made && execution == 2 {
					w.want(to, "new")
					w.want(in, "")
					w.want(flag, "")
				} else {
					w.want(to, "old")
					w.want(in, "new")
					w.want(flag, "new flag")
				}
				var reports []string
				for _, f := range job.Reports().Files {
					reports = append(reports, fmt.Sprint(filepath.Base(f.Path), f.Removed))
				}
				if want := []string{"intrue", "infalse", "flagtrue"}; !reflect.DeepEqual(reports, want) {
					t.Errorf("reports are %v, want %v", reports, want)
				}
			})
		}
	}
}

// TestTakenMeanwhile checks what a repeated move says of a file that is at neither name.
func TestTakenMeanwhile(t *testing.T) {
	w := newEffectWorld(t)
	in, to := w.write("in", "text"), filepath.Join(w.out, "to")
	files, _ := w.attempt(1, 1)
	if err := files.Move(t.Context(), filepath.Join(w.out, "none"), to); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "move ") {
		t.Errorf("a file that never was is moved: %v", err)
	}
	if err := files.Move(t.Context(), in, in); !courier.IsPermanent(err) {
		t.Errorf("a file is moved to itself: %v", err)
	}
	if err := files.Move(t.Context(), in, to); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(to); err != nil {
		t.Fatal(err)
	}
	again, job := w.attempt(1, 2)
	if err := again.Move(t.Context(), in, to); err != nil || len(job.Reports().Files) != 1 {
		t.Errorf("a move that is done: %v, reports %v", err, job.Reports().Files)
	}
}

// TestOwnFiles checks that a step may take away again what each of its attempts makes.
func TestOwnFiles(t *testing.T) {
	w := newEffectWorld(t)
	tmp, to := filepath.Join(w.out, "tmp"), filepath.Join(w.out, "to")
	for attempt := 1; attempt <= 3; attempt++ {
		files, _ := w.attempt(1, attempt)
		err := files.Remove(to)
		for _, text := range []string{"one", "two"} {
			p, e := files.Create(tmp)
			if e == nil {
				_, e = p.WriteString(fmt.Sprint(text, attempt))
			}
			if e == nil {
				e = p.Commit()
			}
			if e == nil {
				e = files.Move(t.Context(), tmp, to)
			}
			err = errors.Join(err, e)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.want(to, fmt.Sprint("two", attempt))
		w.want(tmp, "")
	}
}

// TestRemoveBeforeMove checks that a repeated attempt does not remove what an earlier one has
// moved there.
func TestRemoveBeforeMove(t *testing.T) {
	w := newEffectWorld(t)
	in := w.write("in", "the only copy")
	for attempt := 1; attempt <= 2; attempt++ {
		files, _ := w.attempt(1, attempt)
		if err := errors.Join(files.Remove("to"), files.Move(t.Context(), in, "to")); err != nil {
			t.Fatal(err)
		}
		w.want(filepath.Join(w.work, "to"), "the only copy")
	}
}

// TestKilledAfterEffect checks that an attempt knows what the one before it has done last, which
// could not note that down any more.
func TestKilledAfterEffect(t *testing.T) {
	w := newEffectWorld(t)
	in, flag, to := w.write("in", "text"), w.write("flag", ""), filepath.Join(w.out, "to")
	killed := errors.New("killed")
	job := courier.NewContext(courier.ContextConfig{
		Execution: "x", Step: 1, Attempt: 1, Workspace: w.work, Roots: []string{w.out},
		OnFile: func(operation, name string) error {
			if operation != "rename" {
				return nil
			}
			return errors.Join(os.Rename(in, name), killed)
		},
	})
	defer job.Close()
	if err := job.Files().Move(t.Context(), in, to); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	w.write("in", "another one")
	files, again := w.attempt(1, 2)
	if err := errors.Join(files.Move(t.Context(), in, to), files.Remove(flag), files.Remove(flag)); err != nil {
		t.Fatal(err)
	}
	w.want(to, "text")
	w.want(in, "another one")
	if reports := again.Reports().Files; len(reports) != 3 || reports[1].Path != to || reports[1].Size != 4 {
		t.Errorf("reports are %v", reports)
	}
}

// TestRollbackMovesBack checks that what Rollback has moved back is moved again after a resume.
func TestRollbackMovesBack(t *testing.T) {
	for _, to := range []string{"to", "R/to"} {
		w := newEffectWorld(t)
		in := w.write("in", "text")
		if rest, ok := strings.CutPrefix(to, "R/"); ok {
			to = filepath.Join(w.out, rest)
		}
		var reg courier.Registry
		courier.Register(&reg, "partner.take", take{in, to}, nil)
		typ, _ := reg.Lookup("partner.take")
		for attempt := 1; attempt <= 3; attempt++ {
			_, job := w.attempt(1, attempt)
			if _, err := typ.Execute(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
			w.want(in, "")
			if err := typ.Rollback(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
			w.want(in, "text")
		}
	}
}

// A take is a step that moves a file, and moves it back in Rollback.
type take struct{ in, to string }

func (s take) Execute(ctx context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
	return struct{}{}, job.Files().Move(ctx, s.in, s.to)
}

func (s take) Rollback(ctx context.Context, job *courier.Context, _ struct{}) error {
	return job.Files().Move(ctx, s.to, s.in)
}
