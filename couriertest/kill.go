package couriertest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
)

// An OpenFunc returns an engine that is not started, on a store that several processes can open,
// such as one on PostgreSQL: a store in memory ends with its process. It sets in opt the fields
// that the pipeline needs, such as Secrets and Roots, and must not change the fields that are set
// there: Around, Worker, Workspace, Lease and Log. Arg is [Kill].Arg. The returned function closes
// everything that was opened.
type OpenFunc func(ctx context.Context, arg string, opt *engine.Options) (e *engine.Engine, closeStore func(), err error)

// A Kill says which job [KillWorker] executes, and where it kills the worker.
type Kill struct {
	Arg    string // passed to open, such as the URL of a database; other users of the host can't see it
	Job    courier.Job
	Params map[string]any
	// Step is the id or the index, such as "2", of the step at which the worker is killed.
	// Iteration is the iteration in which it is killed; nil outside loops. It is killed at the
	// first attempt there.
	Step      string
	Iteration []int
	// Delay is how long the step executes before the worker is killed; 0 means that it is killed
	// before the step begins. If the step ends earlier, the worker is still killed after the delay,
	// and the end of the step is not recorded.
	Delay time.Duration
	// Executed kills the worker as soon as the step has executed, before the end of the step is
	// recorded. The effects of the step remain, and the next worker executes it again. Delay must
	// be 0.
	Executed bool
	// Timeout is how long the whole test may take; 0 means a minute. The lease is 2 s, so the
	// next worker takes over within about 2 s.
	Timeout time.Duration
}

// A Killed is the result of [KillWorker]: an execution whose first worker was killed.
type Killed struct {
	// Before is the execution as it was recorded when the first worker was dead. Its state is
	// running.
	Before *Result
	// After is the execution at its end.
	After *Result
	// FirstLog and SecondLog are the standard output and standard error of the worker
	// processes, with the logs of their engines.
	FirstLog, SecondLog string
}

// workerArgument marks the command line of a worker. The other argument makes the process of a test
// without [WorkerMain] execute no test.
const (
	workerArgument = "couriertest-worker"
	noTest         = "-test.run=^$"
)

// A workerPlan is the input of a worker, which it reads from its standard input.
type workerPlan struct {
	Arg, Worker, Workspace string
	Kill                   bool // this worker is the one that is killed
	Step                   int
	Iteration              []int
	Executes, Executed     bool   // the step executes; the line is written when it has executed
	Line                   string // the line that reports that the place was reached
}

// killedLease is the lease of the workers.
const killedLease = 2 * time.Second

// WorkerMain makes the process a worker if [KillWorker] has started it, and does not return then.
// Otherwise it does nothing. Call it at the beginning of TestMain, with the function that is passed
// to KillWorker:
func WorkerMain(open OpenFunc) {
	if !slices.Contains(os.Args[1:], workerArgument) {
		return
	}
	if err := work(open, os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "couriertest: worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work executes executions until in ends. In also ends if the test dies.
func work(open OpenFunc, in io.Reader, out, log io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var p workerPlan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		if p.Kill {
			os.Exit(1) // the test died before it killed this worker, which must not record anything
		}
		cancel()
	}()
	opt := &engine.Options{Worker: p.Worker, Workspace: p.Workspace, Lease: killedLease, Log: slog.New(slog.NewTextHandler(log, nil))}
	if p.Kill {
		opt.Around = p.around(out)
	}
	e, closeStore, err := open(ctx, p.Arg, opt)
	if err != nil {
		return err
	}
	defer closeStore()
	if err := e.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return e.Stop(context.WithoutCancel(ctx))
}

// around writes the line at the place where the worker is to be killed, and never returns there.
func (p *workerPlan) around(out io.Writer) func(context.Context, *courier.Context, func(context.Context) error) error {
	return func(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
		if job.Step() != p.Step || !slices.Equal(job.Iteration(), p.Iteration) || job.Attempt() > 1 {
			return next(ctx)
		}
		if !p.Executed {
			fmt.Fprintln(out, p.Line)
		}
		if p.Executes {
			_ = next(ctx) // nobody reads its error
		}
		if p.Executed {
			fmt.Fprintln(out, p.Line)
		}
		select {}
	}
}

// KillWorker executes a job in a separate process, the first worker, and kills it at a step
// (SIGKILL; TerminateProcess on Windows). Then it starts a second worker, which takes over the
// execution. It returns the records after the kill and at the end. Both workers run the binary of
// the test, whose TestMain must call [WorkerMain]. Open is called in the workers, and in the
// process of the test, which defines the job and reads the records. The workers do not share
// variables with the test. So a pipeline for tests usually has side effects in a directory or on a
// server, whose address is in Arg or Params.
//
// If the execution does not reach the step, or does not end, the test fails at once, with the
// output of the workers. The outcome of the execution is left to the assertions of the results.
func KillWorker(t testing.TB, open OpenFunc, k Kill) *Killed {
	t.Helper()
	plan := workerPlan{
		Arg: k.Arg, Worker: "worker-1", Workspace: t.TempDir(), Kill: true, Step: k.step(t), Iteration: k.Iteration,
		Executes: k.Executed || k.Delay > 0, Executed: k.Executed, Line: rand.Text(),
	}
	if k.Delay < 0 || k.Executed && k.Delay != 0 {
		t.Fatalf("KillWorker: Delay is %v; it must not be negative, and 0 with Executed", k.Delay)
	}
	timeout := k.Timeout
	if timeout <= 0 {
		timeout = time.Minute
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	e, closeStore, err := open(ctx, k.Arg, &engine.Options{Worker: "test", Workspace: plan.Workspace, Lease: killedLease})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore()
	d, err := e.Jobs().Define(ctx, k.Job, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(ctx, k.Job.Name, &courier.EnqueueOptions{Params: k.Params, Version: d.Job.Version})
	if err != nil {
		t.Fatal(err)
	}
	r := new(Killed)
	first := startWorker(t, &plan)
	err = first.await(ctx, e, x.ID)
	if err == nil {
		select {
		case <-time.After(k.Delay):
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	r.FirstLog = first.kill()
	if x, found := e.Executions().Get(ctx, x.ID); found == nil {
		r.Before = resultOf(t, e, x, x.Err())
	} else {
		err = errors.Join(err, found)
	}
	if err != nil {
		t.Fatalf("KillWorker: step %s%s: %v\noutput of the worker:\n%s", k.Step, inBrackets(k.Iteration), err, r.FirstLog)
	}
	plan.Worker, plan.Kill = "worker-2", false
	second := startWorker(t, &plan)
	x, err = e.Wait(ctx, x.ID)
	r.SecondLog = second.end()
	if err != nil {
		t.Fatalf("KillWorker: the execution is %s after the takeover: %v\noutput of the second worker:\n%s", x.State, err, r.SecondLog)
	}
	r.After = resultOf(t, e, x, x.Err())
	return r
}

// step returns the index of the step at which the worker is killed.
func (k *Kill) step(t testing.TB) int {
	t.Helper()
	i := slices.IndexFunc(k.Job.Steps, func(s courier.StepSpec) bool { return s.ID != "" && s.ID == k.Step })
	if n, err := strconv.Atoi(k.Step); i < 0 && err == nil && n >= 0 && n < len(k.Job.Steps) {
		i = n
	}
	if i < 0 {
		t.Fatalf("KillWorker: job %q has no step %q; give its id, or its index", k.Job.Name, k.Step)
	}
	return i
}

func inBrackets(iteration []int) string {
	if len(iteration) == 0 {
		return ""
	}
	return "[" + courier.FormatIteration(iteration) + "]"
}

// A workerProcess is a worker, as the test sees it.
type workerProcess struct {
	cmd     *exec.Cmd
	in      io.Closer
	log     logBuffer
	reached chan struct{} // closed when the worker has written the line
	ended   chan struct{} // closed when the worker has ended
	err     error         // its error; read it after ended is closed
}

// startWorker starts the binary of the test as a worker, which is killed when the test ends.
func startWorker(t testing.TB, plan *workerPlan) *workerProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	p := &workerProcess{cmd: exec.Command(self, noTest, workerArgument), reached: make(chan struct{}), ended: make(chan struct{})}
	p.cmd.Stderr = &p.log
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in = in
	go func() {
		p.read(out, plan.Line)
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() { p.kill() })
	if _, err := in.Write(append(text, '\n')); err != nil {
		t.Fatalf("start a worker: %v\noutput of the worker:\n%s", err, p.kill())
	}
	return p
}

// read reads the output of the worker until the worker ends.
func (p *workerProcess) read(out io.Reader, line string) {
	r := bufio.NewReader(out)
	for reached := false; ; {
		text, err := r.ReadBytes('\n')
		if !reached && string(bytes.TrimSpace(text)) == line {
			reached = true
			close(p.reached)
		} else if len(text) > 0 {
			_, _ = p.log.Write(text)
		}
		if err != nil {
			return
		}
	}
}

// await returns nil when the worker has reached the place of the kill.
func (p *workerProcess) await(ctx context.Context, e *engine.Engine, id courier.ExecutionID) error {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	var waiting sync.WaitGroup
	defer func() {
		cancel()
		waiting.Wait()
	}()
	waiting.Go(func() {
		x, err := e.Wait(ctx, id)
		if err == nil {
			err = fmt.Errorf("it was not reached: the execution is %s", x.State)
			if x.Err() != nil {
				err = fmt.Errorf("%w: %w", err, x.Err())
			}
		}
		over <- err
	})
	select {
	case <-p.reached:
		return nil
	case err := <-over:
		return err
	case <-p.ended:
		const main = "does TestMain call couriertest.WorkerMain first?"
		if p.err != nil {
			return fmt.Errorf("the worker has ended: %w; %s", p.err, main)
		}
		return errors.New("the worker has ended; " + main)
	}
}

// kill kills the worker unless it has ended, and returns its output.
func (p *workerProcess) kill() string {
	_ = p.cmd.Process.Kill()
	<-p.ended
	return strings.TrimSpace(p.log.String())
}

// end lets the worker stop, for 10 seconds at most, and returns its output.
func (p *workerProcess) end() string {
	_ = p.in.Close()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	return p.kill()
}
