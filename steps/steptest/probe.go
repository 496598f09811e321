package steptest

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// A place is a point at which a step called something that the test controls.
type place struct {
	kind kind
	what string // "open \"in.txt\""
	line string // "upper.go:12"; empty if that can't be told
}

func (p place) String() string {
	if p.line == "" {
		return p.what
	}
	return p.what + " at " + p.line
}

// inCommit reports whether the place is inside [courier.PendingFile.Commit],
// where no step panics.
func (p place) inCommit() bool {
	return strings.HasPrefix(p.what, "sync ") || strings.HasPrefix(p.what, "rename ")
}

type kind int

const (
	look kind = iota
	file
	progress
	secret
	outside
)

// A probe counts the places that an attempt reaches, and acts at one of them.
type probe struct {
	at   int                  // the place to act at, from 1; 0 means none
	list bool                 // whether to list the places
	act  func(p *place) error // what is done there, in the step's goroutine

	packages []string // where looks at the context are places

	mu     sync.Mutex
	n      int
	looks  int // those that are no places included
	places []place
	acted  string // where it was, once it has been
}

// reach tells the probe that the step is at a place. If the call at that place
// can fail, the returned error replaces it.
func (p *probe) reach(k kind, what func() string) error {
	line, own := "", true
	if k != outside {
		var of string
		line, of = caller()
		own = k != look || p.owns(of)
	}
	p.mu.Lock()
	if k == look {
		p.looks++
	}
	if !own {
		p.mu.Unlock()
		return nil
	}
	p.n++
	here := p.n == p.at
	var pl place
	if here || p.list {
		pl = place{kind: k, what: what(), line: line}
	}
	if p.list {
		p.places = append(p.places, pl)
	}
	if here {
		p.acted = fmt.Sprintf("place %d, %s", p.n, pl)
	}
	p.mu.Unlock()
	if !here {
		return nil
	}
	return p.act(&pl)
}

// hit describes where the probe acted; it is empty if the probe has not acted.
func (p *probe) hit() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acted
}

// listed returns the places so far. An outside system may still be working.
func (p *probe) listed() []place {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.places)
}

// looked returns how often the attempt checked its context, in any package.
func (p *probe) looked() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.looks
}

// without lists the packages whose lines do not identify a place in a step.
var without = []string{
	"github.com/courierhq/courier.", "github.com/courierhq/courier/internal/", "github.com/courierhq/courier/steps/steptest.",
	"context.", "runtime.", "io.", "bufio.", "sync.", "os.", "fmt.",
}

// caller returns the current line of the step, and its package.
func caller() (line, of string) {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
next:
	for {
		f, more := frames.Next()
		if f.Function == "" {
			return "", ""
		}
		for _, prefix := range without {
			if strings.HasPrefix(f.Function, prefix) {
				if !more {
					return "", ""
				}
				continue next
			}
		}
		return fmt.Sprintf("%s:%d", filepath.Base(f.File), f.Line), packageOf(f.Function)
	}
}

// packageOf returns the import path of a function's package. External test
// packages count as the package that they test.
func packageOf(function string) string {
	function, _, _ = strings.Cut(function, "[") // of type parameters
	dir, name := path.Split(function)
	name, _, _ = strings.Cut(name, ".")
	return dir + strings.TrimSuffix(name, "_test")
}

// owns reports whether a check of the context in package of is a place.
func (p *probe) owns(of string) bool {
	return slices.ContainsFunc(p.packages, func(own string) bool {
		return own == All || of == own || strings.HasPrefix(of, own+"/")
	})
}

// goroutine returns the number of the calling goroutine.
func goroutine() string {
	var buf [64]byte
	id, _, _ := bytes.Cut(bytes.TrimPrefix(buf[:runtime.Stack(buf[:], false)], []byte("goroutine ")), []byte(" "))
	return string(id)
}

// A watched context reports each check of it to a probe.
type watched struct {
	context.Context
	probe *probe
}

// Err counts as a check.
func (w watched) Err() error {
	w.probe.reach(look, func() string { return "ctx.Err" })
	return w.Context.Err()
}

// Done counts as a check.
func (w watched) Done() <-chan struct{} {
	w.probe.reach(look, func() string { return "ctx.Done" })
	return w.Context.Done()
}
