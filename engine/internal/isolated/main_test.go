//go:build linux

package isolated_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	stepexec "github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/sftp"
)

// Variables of the environment: acting makes the test program one that exec.run runs, and
// partnerIs has the port and the host key of the server of the SFTP steps.
const (
	acting    = "COURIER_TEST_ACTING"
	partnerIs = "COURIER_TEST_PARTNER"
)

// act writes a file, as a program does.
func act(name string) {
	fmt.Println("writing", name)
	if err := os.WriteFile(name, []byte("made by a program"), 0o600); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// TestMain makes the test program a host: RunIsolated comes first.
func TestMain(m *testing.M) {
	if what := os.Getenv(acting); what != "" {
		act(what)
	} else if how := os.Getenv(misbehaving); how != "" {
		misbehave(how)
	} else {
		engine.RunIsolated(build)
	}
	os.Exit(m.Run())
}

// build returns the step types of the tests, in the parent and in its children.
func build() (*courier.Registry, error) {
	reg := new(courier.Registry)
	file.Register(reg, nil)
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	program := stepexec.Program{Path: path, AllowEnv: []string{acting}}
	stepexec.Register(reg, &stepexec.Options{Programs: map[string]stepexec.Program{"self": program}})
	var partner sftp.Connection
	if text := os.Getenv(partnerIs); text != "" {
		partner = sftp.Connection{Host: "127.0.0.1", Username: "ann", Password: "password-of-ann", HostKeys: make([]string, 1)}
		if _, err := fmt.Sscan(text, &partner.Port, &partner.HostKeys[0]); err != nil {
			return nil, err
		}
	}
	sftp.Register(reg, sftp.Map{"acme": partner})
	courier.RegisterFunc(reg, "test.do", do, &courier.TypeOptions{FailedOutputs: true, Sets: []string{"also"}})
	courier.Register(reg, "test.tidy", tidy{}, &courier.TypeOptions{Maintainer: maintainer{}, MaintainEvery: 10 * time.Millisecond})
	return reg, nil
}

// maintained counts the calls of maintainer in this process.
var maintained atomic.Int64

type maintainer struct{}

func (maintainer) Maintain(context.Context, courier.Maintenance) error {
	maintained.Add(1)
	return nil
}

type doConfig struct {
	What   string `json:"what"`
	Arg    string `json:"arg"`
	Secret string `json:"secret"`
}

type doOutput struct {
	PID  int    `json:"pid,omitempty"`
	Text string `json:"text,omitempty"`
}

// do does one of many things, well or badly.
func do(ctx context.Context, job *courier.Context, cfg doConfig) (doOutput, error) {
	out := doOutput{PID: os.Getpid()}
	switch cfg.What {
	case "", "nothing":
	case "maintained":
		time.Sleep(200 * time.Millisecond)
		out.Text = fmt.Sprint(maintained.Load())
	case "environment":
		wd, err := os.Getwd()
		out.Text = fmt.Sprintf("%s\n%q\n%s", strings.Join(os.Environ(), "\n"), os.Args, wd)
		return out, err
	case "proc":
		env, err := os.ReadFile("/proc/self/environ")
		line, err2 := os.ReadFile("/proc/self/cmdline")
		score, err3 := os.ReadFile("/proc/self/oom_score_adj")
		out.Text = fmt.Sprintf("%q %q %s", env, line, score)
		return out, errors.Join(err, err2, err3)
	case "memory": // what is resident: in all, its share, and what is not of files, in KiB
		status, err := os.ReadFile("/proc/self/smaps_rollup")
		for _, name := range []string{"Rss:", "Pss:", "Anonymous:"} {
			_, rest, _ := strings.Cut(string(status), name)
			out.Text += strings.Fields(rest)[0] + " "
		}
		return out, err
	case "ask":
		n, err := strconv.Atoi(cfg.Arg)
		wrong := make(chan string, n)
		var asks sync.WaitGroup
		for i := range n {
			asks.Go(func() {
				if v, err := courier.Get[string](job, fmt.Sprint("params.v", i)); err != nil || !strings.HasPrefix(v, fmt.Sprint(i, " ")) {
					wrong <- fmt.Sprintf("%d: %.20q (%v)", i, v, err)
				}
			})
		}
		asks.Wait()
		if len(wrong) > 0 {
			err = errors.New(<-wrong)
		}
		return out, err
	case "report":
		return report(ctx, job, cfg, out)
	case "fail":
		return out, courier.WithClass(errors.New("it is gone"), courier.ReasonNotFound)
	case "fail for good":
		return out, courier.Permanent(courier.Errorf(courier.ErrConflict, "no way"))
	case "panic":
		panic("a hole")
	case "goexit":
		runtime.Goexit()
	case "panic aside":
		go panic("aside with hunter2secret")
		time.Sleep(time.Minute)
	case "exit":
		fmt.Fprint(os.Stderr, "so long, hunter2secret\x1b[31m")
		os.Exit(7)
	case "kill":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		time.Sleep(time.Minute)
	case "eat":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			for i := range b {
				b[i] = 1
			}
			all = append(all, b)
			if len(all) > 1<<12 {
				return out, errors.New("nothing has stopped it")
			}
		}
	case "burn":
		for i := 0; ; i++ {
			if i%1e9 == 0 && ctx.Err() != nil {
				return out, context.Cause(ctx)
			}
		}
	case "wait":
		job.Progress(1, 2, "waiting")
		<-ctx.Done()
		return out, context.Cause(ctx)
	case "hang":
		job.Progress(1, 2, "hanging")
		select {}
	case "terminated":
		return out, terminated(ctx, job, cfg.Arg)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		job.Progress(1, 2, "ignoring")
		select {}
	case "signalled": // by others than the worker
		for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
			if err := syscall.Kill(0, s); err != nil {
				return out, err
			}
		}
		select {
		case <-ctx.Done():
			return out, context.Cause(ctx)
		case <-time.After(300 * time.Millisecond):
		}
	case "family":
		// A grandchild, and one more below it, that would outlive its parent.
		cmd := exec.Command("/bin/sh", "-c", "sleep 300 & echo $! > "+cfg.Arg+"; exec sleep 300")
		if err := cmd.Start(); err != nil {
			return out, err
		}
		select {}
	case "garbage":
		fmt.Println(strings.Repeat("garbage", 1000))
		fmt.Fprintln(os.Stderr, strings.Repeat("garbage", 1000))
	case "output":
		n, err := strconv.Atoi(cfg.Arg)
		out.Text = strings.Repeat("x", n)
		return out, err
	case "deep":
		n, err := strconv.Atoi(cfg.Arg)
		if err == nil {
			err = job.Set("also", json.RawMessage(strings.Repeat("[", n)+strings.Repeat("]", n)))
		}
		return out, err
	case "write":
		w, err := job.Files().Create(cfg.Arg)
		if err != nil {
			return out, err
		}
		defer w.Close()
		if _, err := w.WriteString("content"); err != nil {
			return out, err
		}
		return out, w.Commit()
	default:
		return out, fmt.Errorf("do not know how to %q", cfg.What)
	}
	return out, nil
}

// terminated listens for SIGTERM, and so does a program that it runs. Both note it in files
// with a name.
func terminated(ctx context.Context, job *courier.Context, name string) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	cmd := exec.Command("/bin/sh", "-c", `trap 'echo told > "$0.program"; exit 0' TERM; echo > "$0.begun"; while :; do sleep 0.01; done`, name)
	if err := cmd.Start(); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(name + ".begun"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	job.Progress(1, 2, "listening")
	s := <-signals
	<-ctx.Done()
	if err := errors.Join(os.WriteFile(name, []byte(s.String()), 0o600), cmd.Wait()); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// report uses all that a Context has.
func report(ctx context.Context, job *courier.Context, cfg doConfig, out doOutput) (doOutput, error) {
	secret, err := job.Secret(ctx, "lazy")
	if err != nil {
		return out, err
	}
	if _, err := job.Secret(ctx, "none"); err == nil || !courier.IsPermanent(err) || courier.ClassOf(err) != courier.ReasonSecret {
		return out, fmt.Errorf("a secret that is not there: %w", err)
	}
	job.AddSecret("token", "token-of-the-child")
	value, err := courier.Get[map[string]any](job, cfg.Arg)
	if err != nil {
		return out, err
	}
	if _, err := courier.Get[string](job, "params.none"); !errors.Is(err, courier.ErrNotFound) {
		return out, fmt.Errorf("a value that is not there: %w", err)
	}
	log := job.Log().With("a", 1).WithGroup("g").With("b", time.Second)
	log.Info("a record", "c", errors.New("an error"), "d", []int{1, 2}, "e", secret, slog.Group("f", "x", 1.5))
	log.Debug("not wanted")
	job.Stage("transfer")
	job.Progress(10, 10, "first")
	job.Progress(3, 5, "second "+secret)
	w, err := job.Files().Create("out/made.txt")
	if err != nil {
		return out, err
	}
	defer w.Close()
	if _, err := w.WriteString("made"); err != nil {
		return out, err
	}
	before := 0
	job.Cursor(&before)
	err = errors.Join(w.Commit(), job.Set("also", []int{1}), job.Emit("happened", map[string]any{"token": "token-of-the-child"}), job.SaveCursor(before+1),
		job.Files().ReportRemote(courier.File{Path: "/in/a.csv", Connection: "acme", Received: true}))
	if err := job.SaveCursor("token-of-the-child"); err == nil {
		return out, errors.New("a secret is taken as a cursor")
	}
	out.Text = fmt.Sprintf("%s %d %d %s %v %q %d %v", job.Job(), job.Step(), job.Attempt(), job.ID(), job.Iteration(), value, before, job.Redact(cfg.Secret+secret) == cfg.Secret+secret)
	return out, err
}

// tidy has all methods of a step.
type tidy struct{}

func (tidy) Execute(ctx context.Context, job *courier.Context, cfg doConfig) (doOutput, error) {
	return do(ctx, job, cfg)
}

func (tidy) Validate(_ context.Context, job *courier.Context, cfg doConfig) error {
	if cfg.Arg == "invalid" {
		return fmt.Errorf("process %d finds it invalid, unresolved is %v", os.Getpid(), job.Unresolved("what"))
	}
	return nil
}

func (tidy) Cleanup(_ context.Context, job *courier.Context, cfg doConfig) error {
	job.Log().Info("cleanup", "pid", os.Getpid())
	return job.Files().RemoveSideFiles(cfg.Arg)
}

func (tidy) Rollback(_ context.Context, job *courier.Context, cfg doConfig) error {
	if !filepath.IsAbs(cfg.Arg) {
		return job.Files().RemoveSideFiles(cfg.Arg)
	}
	return os.WriteFile(cfg.Arg, []byte(fmt.Sprint(os.Getpid(), " ", job.Cancelled())), 0o600)
}
