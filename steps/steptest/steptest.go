// Package steptest tests whether a step, built-in or your own, is safe to repeat. Run
// executes the step in many small worlds, disturbs it at each place that it can control,
// cleans up, executes the step again, and compares the outcome with that of an
// undisturbed run.
//
//	func TestUpper(t *testing.T) {
//		steptest.Run(t, steptest.Case{
//			Register: func(r *courier.Registry) { courier.Register(r, "text.upper", Upper{}, nil) },
//			Config:   map[string]any{"input": "in.txt", "output": "out.txt"},
//			Setup:    func(w *steptest.World) { w.Write("in.txt", "hello") },
//		})
//	}
//
// # Places
//
// A step is disturbed where it calls something that the test controls: at each call of
// Err and Done of its context that its own package makes (see [Case].Packages; Deadline
// and Value, and so [context.Cause], tell a step nothing new and do not count), at each
// operation on files through [courier.Files] and [courier.PendingFile], at each report of
// progress and at each secret that it asks for. What a step does with an [os.Root], or
// with a connection of its own, lies between two such places. An outside system that
// Setup makes adds its operations by [World.Reach].
//
// # Disturbances
//
//   - repeat: the step completed, but its reply was lost, so it is executed
//     again, twice, as the next attempt and as the same one.
//   - again: the step completed, but a later one failed, so the job is begun
//     again by the policy retry_job. The workspace is emptied but for what the
//     step noted down and held, and gets the files that Setup put there, as if
//     earlier steps had made them again.
//   - interrupt: its context ends, as when the engine stops.
//   - fail: an operation on files, or of an outside system, or a secret, fails.
//   - panic: the step panics.
//   - cut off: the attempt hangs, so its files and connections are closed under
//     it and the next attempt runs. Then it goes on. What it left until then is
//     what a killed process leaves.
//   - cancel: after an interruption or a panic, Rollback runs with
//     [courier.Context.Cancelled], and nothing else.
//   - twice: after a panic the next attempt is interrupted, in Cleanup or in
//     Execute.
//
// What follows is a Cleanup and an Execute: by turns as the next attempt, as
// the same attempt on another worker, and as the next one after a Rollback. For a
// type that implements no [courier.Cleaner], the directories of earlier attempts are
// removed in place of Cleanup, and the files in the workspace that the attempt before
// has reported if it failed, as an engine does. What Setup puts into the workspace is
// kept, as files of completed steps are.
//
// # Rules
//
// Whatever happened, the last attempt has the outputs, the reports of files and
// the outcome of an undisturbed run, and no side files are left. In between, a
// final name shows its old content, the new one, or nothing. An attempt returns
// soon after its context has ended, with the cause in its error. Cleanup leaves
// a completed result alone, Rollback keeps what a resume needs, and after a
// cancel it leaves nothing of its own outside the workspace. No goroutine
// outlives the attempt and what it kept open. A failure says which rule was
// broken, where, and what to do; each disturbance stops at its first one.
package steptest

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
)

// A Case is a step with a configuration and the world that it works on. Only
// Setup, and Register unless Setup registers, are needed.
type Case struct {
	// Register adds the step type to the registry of each world.
	Register func(r *courier.Registry)
	// Key is the step's type. It may be empty if only one is registered.
	Key string
	// Config is the configuration: a map or a struct that encoding/json can
	// write. Setup may set another one, such as one with paths in it.
	Config any
	// Setup fills a world. It is called for every run, and must make the same
	// world each time.
	Setup func(w *World)

	// Remote returns what is called in place of the step's type: the type in another
	// process, for example. Nil means the type itself.
	Remote func(*courier.StepType) *courier.StepType

	// State describes what the step changes in addition to the files below World.Dir,
	// such as the rows of a table. Nil means nothing.
	State func(w *World) string
	// Content is the text by which the content of a file is compared, for a
	// content that differs from run to run, such as an encrypted one. It must
	// tell complete content from part of it. Nil means the content itself. The
	// name is relative to World.Dir.
	Content func(name string, content []byte) string
	// Name is the name by which a file is compared, for one that differs from run
	// to run, such as a name with the time in it. Two files that get the same
	// name stay two. Nil means the name itself. The name is relative to World.Dir.
	Name func(name string) string
	// Outputs removes from the outputs what differs from run to run. Paths
	// below World.Dir and of the attempt's own directory need not be removed.
	Outputs func(w *World, out map[string]any)
	// Partial reports that a final name may show part of its content between
	// two attempts. Nil means that none may. The name is relative to World.Dir.
	Partial func(name string) bool
	// Tidy demands of the step that an attempt that returns after an
	// interruption leaves no side files below the workspace and the allowed
	// directories, even without Cleanup.
	Tidy bool

	// Dir is the directory in which worlds are made. Empty means /dev/shm where
	// that is, a file system in memory, which saves much time, and otherwise the
	// directory for temporary files. Large content may need another one.
	Dir string
	// Except names disturbances that the step is known not to support, as in the package
	// comment, and "hand over" or "rollback" for the continuations after them. Where
	// "panic" is left out, interruptions take its place in others.
	Except []string

	// Packages are the import paths of the packages, with those below them, whose
	// looks at the context are places. Nil means the package that calls Run. [All]
	// adds every other one, such as that of a database driver, which then has to
	// keep the contract too.
	Packages []string

	// Virtual gives each world a bubble of [testing/synctest], in which waiting
	// takes no time and sockets don't work.
	Virtual bool
	// Return is how long an attempt may go on after its context has ended; 0
	// means 10 seconds, after which an engine cuts it off.
	Return time.Duration
	// Places is the most places at which a step is interrupted; 0 means 32. If there are
	// more, Run chooses places at different lines of the step's code, and of each line
	// the first and the last. The other disturbances use half as many places.
	Places int
}

// All stands for every package in [Case].Packages.
const All = "..."

// The defaults of a Case.
const (
	defaultReturn = 10 * time.Second
	defaultPlaces = 32
)

// Run tests a step against the contract, each disturbance in a subtest. It may
// be called in parallel tests.
func Run(t *testing.T, c Case) {
	t.Helper()
	if c.Packages == nil {
		pc, _, _, _ := runtime.Caller(1)
		c.Packages = []string{packageOf(runtime.FuncForPC(pc).Name())}
	}
	check(c, func(name string, f func(t testing.TB, alone worlds)) {
		t.Run(name, func(t *testing.T) {
			f(t, func(use func(testing.TB)) {
				if !c.Virtual {
					use(t)
					return
				}
				synctest.Test(t, func(t *testing.T) { use(t) })
			})
		})
	})
}

// Cover fails the test for each step type in r that is not among keys, those of
// the cases that are run, so that no type is forgotten. Types with several keys
// need only one of them.
func Cover(t testing.TB, r *courier.Registry, keys ...string) {
	t.Helper()
	covered := make(map[*courier.StepType]bool)
	for _, key := range keys {
		typ, ok := r.Lookup(key)
		if !ok {
			t.Errorf("a case is for %s, which is not registered", key)
		}
		covered[typ] = true
	}
	for _, key := range r.Keys() {
		if typ, _ := r.Lookup(key); typ.Key() == key && !covered[typ] {
			t.Errorf("no case is for %s; add one, for its steps are repeated too", key)
		}
	}
}

// worlds calls use where a world may be made.
type worlds func(use func(testing.TB))

// check is Run with a function that runs a subtest.
func check(c Case, subtest func(name string, f func(testing.TB, worlds))) {
	if c.Return == 0 {
		c.Return = defaultReturn
	}
	if c.Places <= 0 {
		c.Places = defaultPlaces
	}
	if c.Dir == "" {
		c.Dir = memory()
	}
	var ref *reference
	subtest("undisturbed", func(t testing.TB, alone worlds) {
		ref = c.undisturbed(t, alone)
	})
	if ref == nil {
		return
	}
	for _, d := range []struct {
		name string
		run  func(*trial)
	}{
		{"repeat", (*trial).repeat},
		{"again", (*trial).startedAgain},
		{"interrupt", (*trial).interrupt},
		{"fail", (*trial).fail},
		{"panic", (*trial).panic},
		{"cut off", (*trial).cutOff},
		{"cancel", (*trial).cancel},
		{"twice", (*trial).twice},
	} {
		if slices.Contains(c.Except, d.name) {
			continue
		}
		subtest(d.name, func(t testing.TB, alone worlds) {
			t.Helper()
			d.run(&trial{Case: c, t: t, alone: alone, ref: ref})
		})
	}
}
