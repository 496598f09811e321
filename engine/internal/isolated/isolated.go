// Package isolated calls a step in a process of its own: a copy of the host's program,
// which [Main] turns into one that makes a single call and ends.
//
// The parent starts the copy with the word [marker] as its first argument and two pipes,
// over which both send frames of JSON (wire.go). What a step asks of its Context is asked
// of the parent, what it reports is taken there by the parent's Context, and files are the
// child's own business (context.go). The parent ends the child's group of processes in any
// case: when there is an outcome, when the child has not stopped in time, and when it breaks
// the protocol (call.go). The child ends by itself when the parent is gone (child.go).
//
// The copy is started from /proc/self/exe where there is one, so a deployment that replaces the
// file changes nothing for running workers. An argument marks the child, because a variable of
// the environment is inherited. The child sets its limits before it builds anything:
// RLIMIT_DATA, since RLIMIT_AS counts what Go only reserves, and adds what the program has at
// its start. A call may take 5 s longer than the grace period, in which the parent kills the
// group and notes the end. The child kills its group when the pipe ends, since PDEATHSIG would
// kill the child alone. The worker tells its children four times in the time of a lease that it
// is at work; a child that hears nothing for that time ends itself. Frames have at most 64 MiB,
// or MaxOutput and 1 MiB. The constructor of the engine finds a program that calls RunIsolated too
// late, and the parent does after 10 s.
package isolated

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/nearest"
	"github.com/courierhq/courier/internal/procgroup"
)

// Supported reports whether this system can have isolated steps.
const Supported = procgroup.Supported

// ErrUnsupported says that it can't.
var ErrUnsupported = errors.New(procgroup.Unsupported)

// ErrNotCalled says that the program does not begin as it has to.
var ErrNotCalled = errors.New("engine.RunIsolated was not called, so no step can run in a process of its own; make engine.RunIsolated(build) the first statement of main, " +
	"where build returns the registry of step types")

// A Runner runs the steps of an engine that are isolated.
type Runner struct {
	Types     map[string]courier.Isolation // by key, "family.*" or "*"
	Registry  *courier.Registry            // of the engine
	Grace     time.Duration                // where the limits have none
	MaxOutput int                          // bytes of outputs
	Lease     time.Duration                // of the engine: so long a child may hear nothing of it; at least a second
}

// minMemory is the least limit of memory: the program itself needs some to make any call.
const minMemory = 16 << 20

// Check returns all that is wrong with the limits.
func (r *Runner) Check() error {
	var found []error
	add := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if len(r.Types) > 0 && !Supported {
		add("Options.Isolate: %w", ErrUnsupported)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Types)) {
		l := r.Types[key]
		switch {
		case l.Memory != 0 && l.Memory < minMemory:
			add("Options.Isolate[%q]: Memory: %d bytes is less than %d, with which no program runs; 0 means no limit", key, l.Memory, minMemory)
		case (l.Memory != 0 || l.CPU != 0) && !canLimit:
			add("Options.Isolate[%q]: Memory and CPU: this system can't limit them, only Linux can; leave them 0", key)
		}
		for name, d := range map[string]time.Duration{"CPU": l.CPU, "Grace": l.Grace} {
			if d < 0 {
				add("Options.Isolate[%q]: %s: %v is negative; 0 means the default", key, name, d)
			}
		}
		if l.CPU > 0 && l.CPU < time.Second {
			add("Options.Isolate[%q]: CPU: %v is less than a second, the unit of this limit", key, l.CPU)
		}
		for _, name := range l.Env {
			if name == "" || strings.ContainsAny(name, "=\x00") {
				add("Options.Isolate[%q]: Env: %q is not the name of a variable; give the name alone", key, name)
			}
		}
	}
	return errors.Join(found...)
}

// Ready returns what keeps an engine that isolates types from starting: a key that is not
// registered, and that [Main] was not called.
func (r *Runner) Ready() error {
	if len(r.Types) == 0 {
		return nil
	}
	var found []error
	for _, key := range slices.Sorted(maps.Keys(r.Types)) {
		if _, ok := r.Registry.Lookup(key); !ok && key != "*" && !r.isFamily(key) {
			found = append(found, courier.Errorf(courier.ErrInvalid, "Options.Isolate: no step type is called %q; %s", key, nearest.DidYouMean(key, r.Registry.Keys())))
		}
	}
	if !called.Load() {
		found = append(found, ErrNotCalled)
	}
	return errors.Join(found...)
}

// isFamily reports whether a key is that of a family of which there are types.
func (r *Runner) isFamily(key string) bool {
	prefix, ok := strings.CutSuffix(key, "*")
	return ok && strings.HasSuffix(prefix, ".") && slices.ContainsFunc(r.Registry.Keys(), func(k string) bool { return strings.HasPrefix(k, prefix) })
}

// limits returns what the engine says about a type: under its key or an alias, its family,
// or all.
func (r *Runner) limits(typ *courier.StepType) (l courier.Isolation, isolated bool) {
	if l, isolated = r.Types[typ.Key()]; isolated {
		return l, true
	}
	for key, l := range r.Types {
		if t, ok := r.Registry.Lookup(key); ok && t == typ {
			return l, true
		}
	}
	family, _, _ := strings.Cut(typ.Key(), ".")
	if l, isolated = r.Types[family+".*"]; isolated {
		return l, true
	}
	l, isolated = r.Types["*"]
	return l, isolated
}

// minSilence is the least time for which a child may hear nothing of its worker: both may
// have to wait for a busy machine.
const minSilence = time.Second

// slack is how much longer than the grace period a call may take: the child is killed and
// taken note of in that time.
const slack = 5 * time.Second

// Of returns the type by which a step is called: typ itself, or one that is called in a
// process of its own, and then how long a call may take to return after its context has
// ended. Asked says that the step itself wants that.
func (r *Runner) Of(typ *courier.StepType, asked bool) (*courier.StepType, time.Duration) {
	l, isolated := r.limits(typ)
	if !isolated && !asked {
		return typ, r.Grace
	}
	if l.Grace <= 0 {
		l.Grace = r.Grace
	}
	return r.Remote(typ, l), l.Grace + min(slack, math.MaxInt64-l.Grace)
}

// Remote returns a type that is called in a process with limits.
func (r *Runner) Remote(typ *courier.StepType, l courier.Isolation) *courier.StepType {
	return typ.Remote(func(ctx context.Context, job *courier.Context, method string, config []byte) (json.RawMessage, error) {
		c := call{ctx: ctx, job: job, cfg: remote(job).Config(), limits: l, maxFrame: max(minFrame, r.MaxOutput+1<<20), done: make(chan *outcome, 1), broken: make(chan error, 1)}
		c.cfg.Trace = job.Trace(ctx) // the child has no spans
		return c.run(&begin{Method: method, Type: typ.Key(), Config: config, MaxOutput: r.MaxOutput, Silence: max(minSilence, r.Lease)})
	})
}
