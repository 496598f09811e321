// Package stepcall calls functions of steps, which may panic, end their goroutine, or
// return an error whose methods panic.
package stepcall

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// A Goroutine calls functions in one goroutine, which is kept from one call to the next,
// since growing a new stack costs more than most steps. The zero value is ready to use.
// Its methods may be called by one goroutine at a time.
type Goroutine struct{ calls chan func() }

// Do has f called, and does not wait for it.
func (g *Goroutine) Do(f func()) {
	if g.calls == nil {
		g.calls = make(chan func(), 1)
		go func(calls <-chan func()) {
			for f := range calls {
				f()
			}
		}(g.calls)
	}
	g.calls <- f
}

// End lets the goroutine end when the function that it calls has returned. Do starts
// another one.
func (g *Goroutine) End() {
	if g.calls != nil {
		close(g.calls)
		g.calls = nil
	}
}

// Exited says that the last function has ended the goroutine by runtime.Goexit.
func (g *Goroutine) Exited() { g.calls = nil }

// A Caller calls the steps of one run, one after the other, and keeps from one call to the
// next what each needs. The zero value is ready to use, by one goroutine.
type Caller struct {
	Goroutine
	Config []byte // for the rendered configuration of the next call
	timer  Timer
	done   chan Outcome
}

// Next returns the next call, whose step gets so long to return after its context has ended.
func (c *Caller) Next(grace time.Duration) Call {
	if c.done == nil {
		c.done = make(chan Outcome, 1)
	}
	return Call{Grace: grace, Timer: &c.timer, Done: c.done}
}

// Abandon says that the step does not return from the last call: it may still read its
// configuration, and will send its outcome, so that nothing of it is used again.
func (c *Caller) Abandon() {
	c.Config, c.done = nil, nil
	c.End()
}

// SafeError returns err if its methods can be called outside of the step's goroutine,
// and a replacement if they panic, as those of a nil pointer in an error often do.
func SafeError(err error) (ok error) {
	defer func() {
		if p := recover(); p != nil {
			ok = fmt.Errorf("an error of type %T whose methods panic: %v", err, p)
		}
	}()
	_ = err.Error()
	errors.Is(err, errOther)
	_ = courier.ClassOf(err)
	return err
}

var errOther = errors.New("no error matches this")

// PanickedAt returns where the panic or the runtime.Goexit happened whose deferred call
// calls it: a file, with the directory it is in, and a line. It is empty if that is
// unknown.
func PanickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for began := false; ; {
		f, more := frames.Next()
		inRuntime := strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "internal/runtime/")
		if began && !inRuntime && f.File != "" {
			dir, file := path.Split(filepath.ToSlash(f.File))
			return fmt.Sprintf("%s:%d", path.Join(path.Base(dir), file), f.Line)
		}
		began = began || f.Function == "runtime.gopanic" || f.Function == "runtime.Goexit"
		if !more {
			return ""
		}
	}
}

// Stacks returns the stacks of all goroutines, as far as they fit into a megabyte.
func Stacks() []byte {
	const most = 1 << 20
	buf := make([]byte, most)
	return buf[:runtime.Stack(buf, true)]
}
