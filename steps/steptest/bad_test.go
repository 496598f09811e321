package steptest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/steptest"
)

// A bad step is upper with one thing wrong.
type bad struct {
	execute  func(ctx context.Context, job *courier.Context, cfg config) (output, error)
	cleanup  func(job *courier.Context, cfg config) error
	rollback func(job *courier.Context, cfg config) error
}

func (b bad) Execute(ctx context.Context, job *courier.Context, cfg config) (output, error) {
	if b.execute == nil {
		return upper(ctx, job, cfg)
	}
	return b.execute(ctx, job, cfg)
}

func (b bad) Cleanup(ctx context.Context, job *courier.Context, cfg config) error {
	if b.cleanup == nil {
		return upperStep{}.Cleanup(ctx, job, cfg)
	}
	return b.cleanup(job, cfg)
}

func (b bad) Rollback(ctx context.Context, job *courier.Context, cfg config) error {
	if b.rollback == nil {
		return b.Cleanup(ctx, job, cfg)
	}
	return b.rollback(job, cfg)
}

// path is where a file in the workspace is, for steps that go past the Context.
func path(job *courier.Context, name string) string {
	root, rel, err := job.Files().Root(name)
	if err != nil {
		panic(err)
	}
	return filepath.Join(root.Name(), rel)
}

// pieces writes the output piece by piece with what a bad step uses for it.
func pieces(ctx context.Context, write func(string) error) error {
	for i := range 4 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := write(fmt.Sprint(i)); err != nil {
			return err
		}
	}
	return nil
}

// Each bad step breaks one rule, and the report names it, the disturbance and
// the remedy.
func TestBad(t *testing.T) {
	done := func(job *courier.Context, cfg config) (output, error) {
		return output{File: cfg.Output}, job.Files().Wrote(cfg.Output)
	}
	for _, c := range []struct {
		name string
		step bad
		want []string
	}{
		{"appends", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			f, err := os.OpenFile(path(job, cfg.Output), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				return output{}, err
			}
			defer f.Close()
			if _, err := f.WriteString("line\n"); err != nil || ctx.Err() != nil {
				return output{}, errors.Join(err, context.Cause(ctx))
			}
			return done(job, cfg)
		}}, []string{"repeat: after a complete attempt whose reply was lost, repeated as attempt 2: the outcome differs", `"line\nline\n"`, "safe to repeat"}},
		{"leaves a side file", bad{
			execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
				w, err := job.Files().Create(fmt.Sprintf("for%d/side", job.Attempt()))
				if err != nil || ctx.Err() != nil {
					return output{}, errors.Join(err, context.Cause(ctx))
				}
				w.Close()
				return upper(ctx, job, cfg)
			},
			cleanup: func(*courier.Context, config) error { return nil },
		}, []string{`interrupt: interrupted at place 1, create "for1/side" at bad_test.go:`, "something of an earlier attempt is left over", ".courier-tmp-", "RemoveSideFiles"}},
		{"ignores its context", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			if ctx.Err() != nil {
				time.Sleep(time.Hour)
			}
			return upper(ctx, job, cfg)
		}}, []string{"interrupt: interrupted at place 1, ctx.Err at bad_test.go:", "went on after its context had ended", "within 10s"}},
		{"never looks at its context", bad{execute: func(_ context.Context, job *courier.Context, cfg config) (output, error) {
			return upper(context.Background(), job, cfg)
		}}, []string{"undisturbed: an undisturbed run: the step works in pieces, but never looks at its context"}},
		{"hides the cause", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			out, err := upper(ctx, job, cfg)
			if err != nil {
				err = errors.New("no luck")
			}
			return out, err
		}}, []string{"interrupt: interrupted at place", "does not tell the cause", "no luck", "context.Cause(ctx)"}},
		{"gives up on a passing failure", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			out, err := upper(ctx, job, cfg)
			if err != nil {
				err = courier.Permanent(err)
			}
			return out, err
		}}, []string{"fail: failed at place 1, open \"in.txt\"", "passing failure permanent"}},
		{"reports what is not there", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			out, err := upper(ctx, job, cfg)
			if err == nil {
				err = os.Remove(path(job, cfg.Output))
			}
			return out, err
		}}, []string{"undisturbed: ", "a report of a file is not true", `wrote "out.txt", but it is not there`}},
		{"does not report again", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			if info, err := os.Stat(path(job, cfg.Output)); err == nil {
				return output{cfg.Output, int(info.Size())}, nil
			}
			return upper(ctx, job, cfg)
		}}, []string{"repeat: ", "the reports of files are not those", `wrote "out.txt"`}},
		{"publishes half a file", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			f, err := os.Create(path(job, cfg.Output))
			if err != nil {
				return output{}, err
			}
			defer f.Close()
			if err := pieces(ctx, func(s string) error { _, err := f.WriteString(s); return err }); err != nil {
				return output{}, err
			}
			return done(job, cfg)
		}}, []string{"interrupt: interrupted at place", "neither its old content nor the complete new one", "work/out.txt is", "job.Files().Create and Commit"}},
		{"takes half for whole", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			w, err := job.Files().Create(cfg.Output)
			if err != nil {
				return output{}, err
			}
			defer w.Close()
			if _, err := w.WriteString("first"); err != nil || ctx.Err() != nil {
				return output{}, errors.Join(err, context.Cause(ctx))
			}
			w.WriteString("second") // may fail
			return output{File: cfg.Output}, w.Commit()
		}}, []string{`fail: failed at place`, `write "out.txt"`, "which it completed in spite of that: the outcome differs"}},
		{"returns something else", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			out, err := upper(ctx, job, cfg)
			out.Bytes += job.Attempt()
			return out, err
		}}, []string{"repeat: ", "the outputs differ"}},
		{"returns something random", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			out, err := upper(ctx, job, cfg)
			out.Bytes = rand.Int()
			return out, err
		}}, []string{"undisturbed: ", "two undisturbed runs differ", "Case.Outputs"}},
		{"fails on what it did", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			if _, err := job.Files().Stat(cfg.Output); err == nil {
				return output{}, os.ErrExist
			}
			return upper(ctx, job, cfg)
		}}, []string{"repeat: ", "the next attempt fails", "already exists"}},
		{"cleans up the result", bad{cleanup: func(job *courier.Context, cfg config) error { return job.Files().Remove(cfg.Output) }},
			[]string{"repeat: ", "Cleanup changes the result of an attempt that had completed", "work/out.txt is missing"}},
		{"can't clean up", bad{cleanup: func(job *courier.Context, cfg config) error {
			_, err := job.Files().Stat(cfg.Output)
			return err
		}}, []string{"interrupt: interrupted at place", "Cleanup fails", "no such file"}},
		{"rolls back what a resume needs", bad{rollback: func(job *courier.Context, cfg config) error { return job.Files().Remove(cfg.Input) }},
			[]string{"interrupt: ", "then Rollback, then Cleanup and Execute", "after Rollback the next attempt fails", "no such file"}},
		{"can't roll back", bad{rollback: func(*courier.Context, config) error { return errors.New("no way back") }},
			[]string{"cancel: ", "Rollback fails", "no way back"}},
		{"panics on an error", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			info, _ := job.Files().Stat(cfg.Input)
			if info.Size() == 0 {
				return output{}, nil
			}
			return upper(ctx, job, cfg)
		}}, []string{`fail: failed at place 1, stat "in.txt"`, "the step panics", "nil pointer", "bad_test.go:"}},
		{"leaves a goroutine", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			go func() { time.Sleep(5 * time.Second) }()
			return upper(ctx, job, cfg)
		}}, []string{"undisturbed: at the end: goroutines are left", "bad_test.go:", "courier.Keep"}},
		{"writes past the Context when cut off", bad{execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			target := path(job, cfg.Output)
			if ctx.Err() != nil {
				os.WriteFile(target, []byte("too late"), 0o600)
				return output{}, context.Cause(ctx)
			}
			if err := os.WriteFile(target, []byte("in time"), 0o600); err != nil {
				return output{}, err
			}
			return done(job, cfg)
		}}, []string{"cut off: hung at place", "went on after the next attempt had completed", "an attempt that had been cut off changed", "too late"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := steptest.Breaches(t, steptest.Case{
				Register: func(r *courier.Registry) { courier.Register(r, "text.bad", c.step, nil) },
				Config:   config{"in.txt", "out.txt"},
				Setup:    func(w *steptest.World) { w.Write("in.txt", "hello, world") },
				Virtual:  true,
			})
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("reported is\n%s\nwithout %q", got, want)
				}
			}
		})
	}
}

// Steps without Cleanup that need what the engine removes are found: the directory of an
// earlier attempt, and a file that a failed attempt has reported.
func TestBadWithoutCleanup(t *testing.T) {
	for name, mark := range map[string]string{"an earlier directory": "3/1/mark", "a reported file": "mark"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			write := func(job *courier.Context, name string) error {
				w, err := job.Files().Create(name)
				if err != nil {
					return err
				}
				defer w.Close()
				return w.Commit()
			}
			step := func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
				began := job.Files().StepDir() + "/began"
				if _, err := job.Files().Stat(began); err != nil {
					if err := write(job, mark); err != nil {
						return output{}, err
					}
					if err := write(job, began); err != nil {
						return output{}, err
					}
				} else if _, err := job.Files().Stat(mark); err != nil {
					return output{}, errors.New("the mark is gone")
				}
				if err := job.Files().Wrote(mark); err != nil {
					return output{}, err
				}
				return upper(ctx, job, cfg)
			}
			got := steptest.Breaches(t, steptest.Case{
				Register: func(r *courier.Registry) { courier.RegisterFunc(r, "text.bad", step, nil) },
				Config:   config{"in.txt", "out.txt"},
				Setup:    func(w *steptest.World) { w.Write("in.txt", "hello, world") },
				Virtual:  true,
			})
			if !strings.Contains(got, "fail: failed at place") || !strings.Contains(got, "the mark is gone") {
				t.Errorf("reported is\n%s", got)
			}
		})
	}
}

// What Rollback for a cancel leaves outside of the workspace is found.
func TestBadCancel(t *testing.T) {
	step := bad{
		execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			mine := cfg.Output + ".part"
			if err := os.WriteFile(mine, nil, 0o600); err != nil || ctx.Err() != nil {
				return output{}, errors.Join(err, context.Cause(ctx))
			}
			out, err := upper(ctx, job, cfg)
			if err == nil {
				err = os.Remove(mine)
			}
			return out, err
		},
		rollback: func(*courier.Context, config) error { return nil },
	}
	got := steptest.Breaches(t, steptest.Case{
		Register: func(r *courier.Registry) { courier.Register(r, "text.bad", step, nil) },
		Setup: func(w *steptest.World) {
			w.Write("in.txt", "hello")
			w.Config = config{"in.txt", w.Root + "/out.txt"}
		},
	})
	if !strings.Contains(got, "cancel: interrupted at place 1") || !strings.Contains(got, "Rollback of a cancelled execution left") || !strings.Contains(got, "root/out.txt.part") {
		t.Errorf("reported is\n%s", got)
	}
	if strings.Contains(got, "repeat: ") || strings.Contains(got, "fail: ") {
		t.Errorf("reported is too much\n%s", got)
	}
}

// Files that Case.Name compares by the same name stay two, so a step that makes
// one with each attempt is found.
func TestBadNames(t *testing.T) {
	step := bad{
		execute: func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
			cfg.Output = fmt.Sprintf("out-%d.txt", rand.Int())
			_, err := upper(ctx, job, cfg)
			return output{}, err
		},
		cleanup: func(*courier.Context, config) error { return nil },
	}
	got := steptest.Breaches(t, steptest.Case{
		Register: func(r *courier.Registry) { courier.Register(r, "text.bad", step, nil) },
		Config:   config{Input: "in.txt"},
		Setup:    func(w *steptest.World) { w.Write("in.txt", "hello") },
		Name: func(name string) string {
			if rest, ok := strings.CutPrefix(name, "work/out-"); ok && !strings.Contains(rest, "/") {
				return "work/out-<number>.txt"
			}
			return strings.TrimRight(strings.TrimSuffix(name, ".txt"), "0123456789")
		},
	})
	if !strings.Contains(got, "repeat: ") || !strings.Contains(got, "work/out-<number>.txt (2) should not be there") {
		t.Errorf("reported is\n%s", got)
	}
	if strings.Contains(got, "two undisturbed runs differ") {
		t.Errorf("reported is too much\n%s", got)
	}
}

// A case that can't work says so.
func TestBadCase(t *testing.T) {
	for want, c := range map[string]steptest.Case{
		`no step type "" among []`:               {},
		"the step fails or hangs although":       {Register: registerUpper, Config: config{Input: "none"}},
		"is required, but empty":                 {Register: registerUpper},
		"differ, so no run can be compared":      {Register: registerUpper, Config: config{"in", "out"}, Setup: func(w *steptest.World) { w.Write("in", fmt.Sprint(rand.Int())) }},
		`no step type "text.lower" among ["text`: {Register: registerUpper, Key: "text.lower"},
	} {
		if got := steptest.Breaches(t, c); !strings.Contains(got, want) {
			t.Errorf("reported is\n%s\nwithout %q", got, want)
		}
	}
}
