package main

import (
	"fmt"
	"io"
	"os"
	"path"
	"sync"

	"github.com/courierhq/courier"
)

// A view shows an execution while it runs: a line for each step that has ended and, on a terminal,
// a last line with the progress of the current step.
type view struct {
	mu       sync.Mutex
	out      io.Writer
	terminal bool
	open     bool // the last line is not ended
}

func newView(out io.Writer) *view {
	v := &view{out: out}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		v.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	}
	return v
}

// event is an observer of the engine.
func (v *view) event(e courier.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch e.Type {
	case courier.EventStepStarted:
		v.progress(fmt.Sprintf("  %s ...", label(e.ID, e.StepType, e.Iteration)))
	case courier.EventStepProgress:
		line := fmt.Sprintf("  %s  %s  %s", label(e.ID, e.StepType, e.Iteration), path.Base(e.Item), size(e.ItemDone))
		if e.ItemTotal > 0 {
			line += fmt.Sprintf(" of %s, %d %%", size(e.ItemTotal), 100*e.ItemDone/e.ItemTotal)
		}
		v.progress(line)
	case courier.EventStepCompleted:
		v.line(fmt.Sprintf("  %s done, %s", label(e.ID, e.StepType, e.Iteration), size(e.Bytes)))
	case courier.EventStepFailed, courier.EventStepSkipped:
		v.line(fmt.Sprintf("  %s FAILED: %s", label(e.ID, e.StepType, e.Iteration), e.Error))
	case courier.EventJobResumed:
		v.line(fmt.Sprintf("  resumed by %s", e.By))
	}
}

// progress replaces the last line of a terminal.
func (v *view) progress(s string) {
	const most = 100 // keeps it on one line
	if r := []rune(s); len(r) > most {
		s = string(r[:most])
	}
	if v.terminal {
		fmt.Fprintf(v.out, "\r\x1b[K%s", s)
		v.open = true
	}
}

func (v *view) line(s string) {
	v.clear()
	fmt.Fprintln(v.out, s)
}

func (v *view) clear() {
	if v.open {
		fmt.Fprint(v.out, "\r\x1b[K")
		v.open = false
	}
}

// done ends the live part.
func (v *view) done() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.clear()
}

// label names a step as -fail-at does, with its id.
func label(id, typ string, iteration []int) string {
	s := typ
	if it := courier.FormatIteration(iteration); it != "" {
		s += "[" + it + "]"
	}
	if id != "" {
		s += " (" + id + ")"
	}
	return s
}
