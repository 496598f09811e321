//go:build linux

package isolated_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/engine/internal/isolated"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
)

// steps is how many steps the pipeline of TestKilledAtRandom executes.
var steps = flag.Int("steps", raced.Or(120, 240), "steps of the pipeline in which isolated steps are killed at random")

// children returns the processes that this one has started as children for steps, by their
// state.
func children(t *testing.T) map[int]string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[int]string)
	for _, name := range all {
		stat, err := os.ReadFile(name)
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			t.Fatal(err)
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		if fields[0] == "Z" || strings.Contains(string(line), isolated.Marker) {
			found[pid] = fields[0]
		}
	}
	return found
}

// open returns how many files this process has open, and how many goroutines it has.
func open(t *testing.T) (files, goroutines int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list), runtime.NumGoroutine()
}

// TestKilledAtRandom executes a pipeline of isolated and ordinary steps while their processes
// are killed at random. Each step completes once, its effect is there once and complete, and
// nothing is left: no process, no open file, no goroutine, no directory.
func TestKilledAtRandom(t *testing.T) {
	b := newBench(t, func(o *engine.Options) {
		o.Isolate = map[string]courier.Isolation{"test.*": {}, "file.copy": {Memory: 256 << 20}}
	})
	if _, _, err := b.run(`[{"type": "test.do"}, {"type": "test.do", "isolate": true}]`, nil); err != nil {
		t.Fatal(err) // what is opened once is open now
	}
	filesBefore, goroutinesBefore := open(t)
	n := *steps / 4
	job := courier.Job{
		Name: "k", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: ptr(50), BackoffBase: ptr(time.Duration(0))},
		Params: map[string]any{"items": nil},
	}
	err := json.Unmarshal([]byte(`[
		{"type": "flow.foreach", "config": {"source": "context:params.items"}},
		{"type": "test.do", "config": {"what": "write", "arg": "in/${context:loop.current_item}.txt"}},
		{"id": "copy", "type": "file.copy", "config": {"source_path": "in/${context:loop.current_item}.txt", "destination_path": "`+b.dir+`/out/${context:loop.current_item}.txt"}},
		{"type": "file.hash", "config": {"source_path": "`+b.dir+`/out/${context:loop.current_item}.txt", "algorithm": "sha256"}},
		{"type": "test.tidy", "config": {"what": "nothing", "arg": "in/none"}},
		{"type": "flow.end"}]`), &job.Steps)
	if err != nil {
		t.Fatal(err)
	}
	items := make([]any, n)
	for i := range items {
		items[i] = fmt.Sprint("item-", i)
	}
	ctx, stop := context.WithCancel(t.Context())
	killer := make(chan int)
	go func() {
		kills, rnd, decided := 0, rand.New(rand.NewPCG(1, 2)), make(map[int]bool)
		for ctx.Err() == nil {
			time.Sleep(time.Duration(rnd.IntN(60)) * time.Millisecond)
			for pid := range children(t) {
				if decided[pid] {
					continue // it was spared, however slow the machine is
				}
				if decided[pid] = true; rnd.IntN(2) == 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					kills++
				}
			}
		}
		killer <- kills
	}()
	x, err := b.e.Run(t.Context(), job, &courier.EnqueueOptions{Params: map[string]any{"items": items}})
	stop()
	kills := <-killer
	if err != nil {
		t.Fatalf("%v: %+v", err, x)
	}
	completed, crashed := make(map[string]int), 0
	f := store.StepFilter{Execution: x.ID, Limit: 1000}
	for {
		list, err := b.e.Executions().StepsPage(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			switch {
			case s.State == courier.StepCompleted:
				completed[fmt.Sprint(s.Step, s.Iteration)]++
			case s.Reason == courier.ReasonCrashed && strings.Contains(s.Error, "the step's process was killed;"):
				crashed++
			default:
				t.Errorf("an attempt has ended as %s: %s: %s", s.State, s.Reason, s.Error)
			}
			f.After = s.Seq
		}
		if len(list) < f.Limit {
			break
		}
	}
	for place, n := range completed {
		if n != 1 {
			t.Errorf("step %s has completed %d times", place, n)
		}
	}
	if len(completed) != 4*n {
		t.Errorf("%d steps have completed, want %d", len(completed), 4*n)
	}
	out, err := os.ReadDir(filepath.Join(b.dir, "out"))
	if err != nil || len(out) != n {
		t.Errorf("%d files are there, want %d (%v)", len(out), n, err)
	}
	for _, d := range out {
		if text, err := os.ReadFile(filepath.Join(b.dir, "out", d.Name())); err != nil || string(text) != "content" {
			t.Errorf("%s has %q (%v)", d.Name(), text, err)
		}
	}
	if crashed == 0 || crashed > kills {
		t.Errorf("%d attempts have crashed after %d kills", crashed, kills)
	}
	t.Logf("%d steps, %d kills, %d attempts have crashed", 4*n, kills, crashed)
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	b.nothingLeft()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		files, goroutines := open(t)
		if files <= filesBefore && goroutines <= goroutinesBefore {
			break
		}
		if time.Since(began) > 5*time.Second {
			t.Errorf("%d files are open and %d goroutines there, before it was %d and %d", files, goroutines, filesBefore, goroutinesBefore)
			break
		}
	}
}

func ptr[T any](v T) *T { return &v }

// BenchmarkCall measures what a process of its own costs a step: time, and the most memory
// of the process in which the step runs. Of pages that several processes have, such as those
// of the program, each has a share.
func BenchmarkCall(b *testing.B) {
	for _, own := range []bool{false, true} {
		b.Run(map[bool]string{false: "worker", true: "process"}[own], func(b *testing.B) {
			reg, err := build()
			if err != nil {
				b.Fatal(err)
			}
			typ, _ := reg.Lookup("test.do")
			if own {
				r := isolated.Runner{Registry: reg, Grace: time.Second, MaxOutput: 1 << 20}
				typ = r.Remote(typ, courier.Isolation{})
			}
			var most [3]int
			dir := b.TempDir()
			for b.Loop() {
				job := courier.NewContext(courier.ContextConfig{Workspace: filepath.Join(dir, "w"), Type: "test.do"})
				out, err := typ.Execute(b.Context(), job, []byte(`{"what": "memory"}`))
				if err != nil {
					b.Fatal(err)
				}
				var o doOutput
				if err := json.Unmarshal(out, &o); err != nil {
					b.Fatal(err)
				}
				for i, text := range strings.Fields(o.Text) {
					n, err := strconv.Atoi(text)
					if err != nil {
						b.Fatal(err)
					}
					most[i] = max(most[i], n)
				}
				job.Close()
			}
			for i, unit := range []string{"MiB-resident", "MiB-share", "MiB-own"} {
				b.ReportMetric(float64(most[i])/1024, unit)
			}
		})
	}
}

// TestKilledInTime measures how long after the grace period a step that does not stop is over.
// Of several times the least counts: the others have other work of the machine in them.
func TestKilledInTime(t *testing.T) {
	const grace, most = 200 * time.Millisecond, 100 * time.Millisecond
	reg, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := isolated.Runner{Registry: reg, MaxOutput: 1 << 20}
	typ, _ := reg.Lookup("test.do")
	typ = r.Remote(typ, courier.Isolation{Grace: grace})
	least := time.Hour
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		var ended time.Time
		job := courier.NewContext(courier.ContextConfig{Type: "test.do", OnProgress: func(courier.Progress) {
			ended = time.Now()
			cancel()
		}})
		_, err := typ.Execute(ctx, job, []byte(`{"what": "hang"}`))
		over := time.Since(ended) - grace
		if err == nil || courier.ClassOf(err) != courier.ReasonCrashed || over < 0 {
			t.Errorf("%v after the grace period: %v", over, err)
		}
		t.Logf("%v after the grace period", over)
		least = min(least, over)
		job.Close()
		cancel()
	}
	if least > most {
		t.Errorf("killed %v after the grace period, at most %v is permitted", least, most)
	}
}

// TestAtOnce makes many calls at once, each of which asks for many values at once.
func TestAtOnce(t *testing.T) {
	reg, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := isolated.Runner{Registry: reg, Grace: 10 * time.Second, MaxOutput: 1 << 20, Lease: 15 * time.Second}
	typ, _ := r.Of(must(reg.Lookup("test.do")), true)
	values := make(courier.Values)
	for i := range 200 {
		values[fmt.Sprint("params.v", i)] = strings.Repeat(fmt.Sprint(i, " "), 1000)
	}
	var calls sync.WaitGroup
	for range 16 {
		calls.Go(func() {
			job := courier.NewContext(courier.ContextConfig{Type: "test.do", Values: values})
			defer job.Close()
			if _, err := typ.Execute(t.Context(), job, []byte(`{"what": "ask", "arg": "200"}`)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	if left := children(t); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

func must[T any](v T, ok bool) T {
	if !ok {
		panic("there is none")
	}
	return v
}
