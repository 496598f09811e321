// Package enqueue makes executions of jobs and creates them in the store.
package enqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// A Queue is the part of a store that creates executions; see [store.Queue].
type Queue interface {
	Enqueue(ctx context.Context, list []store.NewExecution) ([]store.Enqueued, error)
}

// An Engine makes executions.
type Engine interface {
	// NewExecution returns a new execution of a program, with a new id.
	NewExecution(ctx context.Context, p *program.Program, opt *program.Options) (store.NewExecution, error)
	// Trace returns the trace context of a call, empty if there is none.
	Trace(ctx context.Context) string
	// Created is called after executions were created.
	Created(list []store.NewExecution)
}

// A Service creates the executions of one engine. Its methods may be called by several
// goroutines.
type Service struct {
	engine   Engine
	queue    Queue
	programs *program.Cache
	log      *slog.Logger
}

// New returns the service of an engine whose store is the queue.
func New(e Engine, q Queue, p *program.Cache, log *slog.Logger) *Service {
	return &Service{e, q, p, log}
}

// Enqueue creates an execution of a job. A nil opt means the defaults.
func (v *Service) Enqueue(ctx context.Context, job string, opt *program.Options) (courier.Execution, error) {
	n, err := v.Prepare(ctx, job, opt, true)
	if err != nil {
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	}
	got, err := v.Create(ctx, []store.NewExecution{n})
	if errors.Is(err, store.ErrOutdated) {
		id := n.ID // it may have been created, by a call whose answer was lost
		if n, err = v.Prepare(ctx, job, opt, false); err != nil {
			return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
		}
		n.ID = id
		got, err = v.Create(ctx, []store.NewExecution{n})
	}
	switch {
	case errors.Is(err, courier.ErrConflict), errors.Is(err, courier.ErrNotFound): // which name the job
		return courier.Execution{}, fmt.Errorf("enqueue: %w", err)
	case err != nil:
		return courier.Execution{}, fmt.Errorf("enqueue: job %q: %w", job, err)
	}
	if opt != nil {
		core.Explained(v.log, "execution", string(got[0].ID), "enqueued", opt.By, slog.String("job", job))
	}
	return got[0], nil
}

// Start creates an execution of the latest version of a job.
func (v *Service) Start(ctx context.Context, job string, s core.Start) error {
	n, err := v.Prepare(ctx, job, &program.Options{
		Params: s.Params, Priority: s.Priority, IdempotencyKey: s.IdempotencyKey, By: s.By,
	}, false)
	if err == nil {
		_, err = v.Create(ctx, []store.NewExecution{n})
	}
	return err
}

// Rerun creates an execution of the job of a former one, with what [program.Rerun] copies
// from it.
func (v *Service) Rerun(ctx context.Context, former *courier.Execution, opt program.Options) (courier.Execution, error) {
	opt = program.Rerun(former, opt)
	n, err := v.Prepare(ctx, former.Job, &opt, false)
	if err != nil {
		return courier.Execution{}, fmt.Errorf("rerun execution %s: %w", former.ID, err)
	}
	n.RerunOf = former.ID
	got, err := v.Create(ctx, []store.NewExecution{n})
	if err != nil {
		return courier.Execution{}, fmt.Errorf("rerun execution %s: %w", former.ID, err)
	}
	return got[0], nil
}

// Prepare makes an execution. Known says that the latest version that is known here will
// do, if it still is the latest when the execution is created.
func (v *Service) Prepare(ctx context.Context, job string, opt *program.Options, known bool) (store.NewExecution, error) {
	if opt == nil {
		opt = &program.Options{}
	}
	if opt.Trace == "" {
		traced := *opt
		traced.Trace = v.engine.Trace(ctx)
		opt = &traced
	}
	var p *program.Program
	if known = known && opt.Version == 0; known {
		p = v.programs.Latest(job)
		known = p != nil
	}
	if p == nil {
		var err error
		if p, err = v.programs.Load(ctx, job, opt.Version); err != nil {
			return store.NewExecution{}, err
		}
	}
	n, err := v.engine.NewExecution(ctx, p, opt)
	if err != nil {
		return store.NewExecution{}, fmt.Errorf("job %q: %w", job, err)
	}
	n.Latest = known
	return n, nil
}

// Create creates executions, all or none.
func (v *Service) Create(ctx context.Context, list []store.NewExecution) ([]courier.Execution, error) {
	var got []store.Enqueued
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	calls := storecall.Calls{Parent: ctx, Awaited: true}
	defer calls.End()
	err := storecall.Retry(&calls, func(ctx context.Context) (err error) {
		got, err = v.queue.Enqueue(ctx, list) // their ids make it safe to repeat
		return err
	})
	if err != nil {
		return nil, err
	}
	v.engine.Created(list)
	executions := make([]courier.Execution, len(got))
	for i := range got {
		executions[i] = got[i].Execution
	}
	return executions, nil
}
