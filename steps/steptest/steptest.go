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
// A step is disturbed at each place where it calls something that the test controls. These are
// the calls of its context's Err and Done in its own package (see [Case].Packages), all
// operations on files through [courier.Files] and [courier.PendingFile], all progress reports,
// and all requests for secrets. Deadline and Value, and so [context.Cause], do not count, since
// they return nothing new. Operations on an [os.Root], or on a connection of the step's own, lie
// between two places. An outside system that Setup makes adds its operations with [World.Reach].
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
// After a disturbance, Cleanup and Execute run: in turn as the next attempt, as the same attempt
// on another worker, and as the next attempt after a Rollback. If the type does not implement
// [courier.Cleaner], the test does what an engine does in place of Cleanup: it removes the
// directories of earlier attempts, and the files in the workspace that a failed previous attempt
// has reported. The files that Setup puts into the workspace are kept, like files of completed
// steps.
//
// # Rules
//
// After every disturbance, the last attempt has the outputs, the file reports and the result of
// an undisturbed run, and no side files are left. In between, a final name has its old content,
// the new content, or does not exist. An attempt returns soon after its context has ended, with
// the cause in its error. Cleanup does not change a completed result. Rollback keeps the files
// that a resume needs; after a cancel the step leaves no files outside the workspace. No
// goroutine outlives the attempt and the resources that it kept open. A failure says which rule
// was broken, where, and what to do. Each disturbance stops at its first failure.
package steptest

import (
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
)

// A Case is a step with its configuration and its world. Only Setup, and Register unless Setup
// registers, are needed.
type Case struct {
	// Register adds the step type to the registry of each world.
	Register func(r *courier.Registry)
	// Key is the step's type. It may be empty if only one type is registered.
	Key string
	// Config is the configuration: a map or a struct that encoding/json can encode. Setup may
	// replace it, for example by one with paths.
	Config any
	// Setup fills a world. It is called for every run, and must make the same
	// world each time.
	Setup func(w *World)

	// Remote returns a step type that is called in place of the step's type, such as the same
	// type in another process. Nil means the type itself.
	Remote func(*courier.StepType) *courier.StepType

	// State describes other effects of the step than files below World.Dir, such as the rows of a
	// table. Nil means that there are none.
	State func(w *World) string
	// Content returns the text by which the content of a file is compared. It is needed if the
	// content differs between runs, such as encrypted content. It must distinguish complete
	// content from part of it. Nil means the content itself. The name is relative to World.Dir.
	Content func(name string, content []byte) string
	// Name returns the name by which a file is compared. It is needed if the name differs between
	// runs, such as a name with the time in it. Two files with the same comparison name stay two
	// files. Nil means the name itself. The name is relative to World.Dir.
	Name func(name string) string
	// Outputs removes values that differ between runs from the outputs. Paths below World.Dir and
	// in the attempt's own directory need not be removed.
	Outputs func(w *World, out map[string]any)
	// Partial reports whether the final name may show part of its content between two attempts.
	// Nil means that no name may. The name is relative to World.Dir.
	Partial func(name string) bool
	// Tidy requires that an interrupted attempt, when it returns, leaves no side files below the
	// workspace and the allowed directories, even without Cleanup.
	Tidy bool

	// Dir is the directory in which worlds are made. Empty means /dev/shm, a file system in
	// memory that saves much time, if it exists, and otherwise the directory for temporary files.
	// Large content may need another directory.
	Dir string
	// Except names the disturbances that the step is known not to support, as in the package
	// comment, and "hand over" or "rollback" for the continuations after them. If "panic" is
	// excluded, other disturbances use interruptions in its place.
	Except []string

	// Packages are the import paths of packages. A check of the context in one of them, or in a
	// package below it, is a place. Nil means the package that calls Run. [All] adds every other
	// package, such as that of a database driver, which then must also follow the contract.
	Packages []string

	// Virtual gives each world a bubble of [testing/synctest], in which waiting
	// takes no time and sockets don't work.
	Virtual bool
	// Return is how long an attempt may continue after its context has ended. 0 means 10 seconds,
	// after which an engine abandons it.
	Return time.Duration
	// Places is the maximum number of places at which a step is interrupted; 0 means 32. If there
	// are more, Run chooses places at different lines of the step's code, and the first and the
	// last place of each line. The other disturbances use half as many places.
	Places int
}

// All stands for every package in [Case].Packages.
const All = "..."

// The defaults of a Case.
const (
	defaultReturn = 10 * time.Second
	defaultPlaces = 32
)

// Run tests a step against the contract, each disturbance in a subtest. Tests that run in
// parallel may call it.
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

// Cover fails the test for each step type in r that is not among keys, the types of the cases
// that are run, so that no type is forgotten. Types with several keys need only one of them.
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

// worlds calls use in a test in which a world may be made.
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
