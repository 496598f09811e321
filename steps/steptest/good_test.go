package steptest_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/steptest"
)

type config struct {
	Input  string `json:"input" courier:"required"`
	Output string `json:"output"`
}

type output struct {
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// upper is a step as the documentation says that one should be.
func upper(ctx context.Context, job *courier.Context, cfg config) (output, error) {
	out := output{File: cfg.Output}
	if out.File == "" {
		out.File = job.Files().Dir() + "/upper.txt"
	}
	r, err := job.Files().Open(cfg.Input)
	if err != nil {
		return out, err
	}
	defer r.Close()
	w, err := job.Files().Create(out.File)
	if err != nil {
		return out, err
	}
	defer w.Close()
	block := make([]byte, 4)
	for {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		n, err := r.Read(block)
		if err == io.EOF {
			return out, w.Commit()
		}
		if err == nil {
			_, err = w.WriteString(strings.ToUpper(string(block[:n])))
		}
		if err != nil {
			return out, err
		}
		out.Bytes += n
		job.Progress(int64(out.Bytes), -1, cfg.Input)
	}
}

// upperStep adds a Cleanup to upper.
type upperStep struct{}

func (upperStep) Execute(ctx context.Context, job *courier.Context, cfg config) (output, error) {
	return upper(ctx, job, cfg)
}

func (upperStep) Cleanup(_ context.Context, job *courier.Context, cfg config) error {
	if cfg.Output == "" {
		for n := 1; n < job.Attempt(); n++ {
			if err := job.Files().RemoveSideFiles(job.Files().StepDir() + "/" + strconv.Itoa(n) + "/upper.txt"); err != nil {
				return err
			}
		}
		return nil
	}
	return job.Files().RemoveSideFiles(cfg.Output)
}

func registerUpper(r *courier.Registry) { courier.Register(r, "text.upper", upperStep{}, nil) }

// A step that keeps to the contract passes, with a name of its own for the
// output, over an old file, in the attempt's directory, and with files outside
// the workspace.
func TestGood(t *testing.T) {
	for name, output := range map[string]string{"new": "out/out.txt", "over": "old.txt", "own": "", "root": "ROOT/x/out.txt"} {
		for _, virtual := range []bool{false, true} {
			t.Run(name+" "+strconv.FormatBool(virtual), func(t *testing.T) {
				t.Parallel()
				steptest.Run(t, steptest.Case{
					Register: registerUpper,
					Setup: func(w *steptest.World) {
						w.Write("in.txt", "hello, world")
						w.Write("old.txt", "old")
						w.Config = config{"in.txt", strings.ReplaceAll(output, "ROOT", w.Root)}
					},
					Tidy: true, Virtual: virtual,
				})
			})
		}
	}
}

// A step without Cleanup passes if it leaves nothing but what the engine removes: the
// directories of earlier attempts, and files that failed attempts have reported. Files of
// earlier steps stay, also if it has reported them.
func TestWithoutCleanup(t *testing.T) {
	for name, target := range map[string]string{"own": "", "own again": "OWN/a/b.txt", "over": "old.txt"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			steptest.Run(t, steptest.Case{
				Register: func(r *courier.Registry) {
					courier.RegisterFunc(r, "text.upper", func(ctx context.Context, job *courier.Context, cfg config) (output, error) {
						cfg.Output = strings.ReplaceAll(cfg.Output, "OWN", job.Files().Dir())
						return upper(ctx, job, cfg)
					}, nil)
				},
				Setup: func(w *steptest.World) {
					w.Write("in.txt", "hello, world")
					w.Write("old.txt", "old")
					w.Config = config{"in.txt", target}
				},
			})
		})
	}
}

// The state of an outside system belongs to the outcome, and its operations
// are places.
func TestOutside(t *testing.T) {
	operations := 0
	steptest.Run(t, steptest.Case{
		Setup: func(w *steptest.World) {
			sent := filepath.Join(w.Dir, "sent")
			send := func(id string) error {
				operations++
				if err := w.Reach("send " + id); err != nil {
					return err
				}
				return os.WriteFile(sent, []byte(id), 0o600)
			}
			w.Secrets = func(_ context.Context, r courier.SecretRequest) (string, error) { return "the " + r.Name, nil }
			w.Values = courier.Values{"0.id": "seven"}
			courier.RegisterFunc(w.Registry, "queue.send", func(ctx context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
				id, err := courier.Get[string](job, "0.id")
				if err != nil {
					return struct{}{}, err
				}
				if s, err := job.Secret(ctx, "key"); err != nil || s != "the key" {
					return struct{}{}, errors.Join(err, errors.New("no key"))
				}
				return struct{}{}, send(id)
			}, nil)
		},
		State: func(w *steptest.World) string {
			b, _ := os.ReadFile(filepath.Join(w.Dir, "sent"))
			return string(b)
		},
	})
	if operations < 10 {
		t.Errorf("%d operations", operations)
	}
}

// A type without a case is found, and a case without a type.
func TestCover(t *testing.T) {
	var r courier.Registry
	courier.Register(&r, "text.upper", upperStep{}, &courier.TypeOptions{Aliases: []string{"text.shout"}})
	courier.Register(&r, "text.other", upperStep{}, nil)
	if got := steptest.Uncovered(t, &r, "text.shout", "text.none"); got != "a case is for text.none, which is not registered\nno case is for text.other; add one, for its steps are repeated too\n" {
		t.Errorf("reported is\n%s", got)
	}
	if got := steptest.Uncovered(t, &r, "text.upper", "text.other"); got != "" {
		t.Errorf("reported is\n%s", got)
	}
}

func Example() {
	// In a test function, with its t:
	test := func(t *testing.T) {
		steptest.Run(t, steptest.Case{
			Register: func(r *courier.Registry) { courier.Register(r, "text.upper", upperStep{}, nil) },
			Config:   map[string]any{"input": "in.txt", "output": "out/out.txt"},
			Setup:    func(w *steptest.World) { w.Write("in.txt", "hello") },
		})
	}
	_ = test
	// Output:
}

// waits is a step that hands its context to a library, which looks at it often.
func waits(ctx context.Context, job *courier.Context, cfg config) (output, error) {
	for range 20 {
		if err := exec.CommandContext(ctx, "/nonexistent").Run(); errors.Is(err, context.Canceled) {
			return output{}, errors.New("the library was interrupted")
		}
	}
	return upper(ctx, job, cfg)
}

// TestPackages: looks that a library makes are no places, unless the case says so.
func TestPackages(t *testing.T) {
	c := steptest.Case{
		Register: func(r *courier.Registry) { courier.RegisterFunc(r, "text.waits", waits, nil) },
		Config:   config{Input: "in.txt", Output: "out.txt"},
		Setup:    func(w *steptest.World) { w.Write("in.txt", "hello") },
		Places:   8,
	}
	if got := steptest.Breaches(t, c); got != "" {
		t.Errorf("interrupted in the step's own package: %s", got)
	}
	c.Packages = []string{steptest.All}
	if got := steptest.Breaches(t, c); !strings.Contains(got, "exec.go") {
		t.Errorf("interrupted everywhere, the library's answer is not found: %q", got)
	}
}
