package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/courierhq/courier"
)

// A fault makes one step fail once.
type fault struct {
	typ       string // empty means that none fails
	iteration int    // -1 means any

	mu    sync.Mutex
	fired bool
}

var faultForm = regexp.MustCompile(`^([a-z_.]+)(?:\[(\d{1,6})\])?$`)

// parseFault reads 'type' or 'type[iteration]'.
func parseFault(s string, job *courier.Job) (*fault, error) {
	if s == "" {
		return &fault{}, nil
	}
	m := faultForm.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("-fail-at %q: must be a step type, or one with an iteration, such as sftp.download[2]", s)
	}
	var types []string
	for _, step := range job.Steps {
		if !strings.HasPrefix(step.Type, "flow.") {
			types = append(types, step.Type)
		}
	}
	if !slices.Contains(types, m[1]) {
		slices.Sort(types)
		types = slices.Compact(types)
		return nil, fmt.Errorf("-fail-at %q: the pipeline has no step of type %q; %s", s, m[1], "its types are "+strings.Join(types, ", "))
	}
	f := &fault{typ: m[1], iteration: -1}
	if m[2] != "" {
		f.iteration, _ = strconv.Atoi(m[2])
	}
	return f, nil
}

// String is the fault as it is written on the command line.
func (f *fault) String() string {
	if f.iteration < 0 {
		return f.typ
	}
	return fmt.Sprintf("%s[%d]", f.typ, f.iteration)
}

// around is the engine's hook around each step.
func (f *fault) around(ctx context.Context, job *courier.Context, next func(context.Context) error) error {
	if f.hits(job) {
		// The error looks as if the partner were down, so that no file is to blame.
		return courier.WithClass(errors.New("this failure was asked for with -fail-at"), courier.ReasonConnection)
	}
	return next(ctx)
}

func (f *fault) hits(job *courier.Context) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	it := job.Iteration()
	if f.fired || job.Type() != f.typ || f.iteration >= 0 && (len(it) == 0 || it[len(it)-1] != f.iteration) {
		return false
	}
	f.fired = true
	return true
}
