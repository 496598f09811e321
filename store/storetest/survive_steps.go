package storetest

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// labor is the configuration of a step of a pipeline. Its durations are in units.
type labor struct {
	Value any     `json:"value"` // its output
	Takes float64 `json:"takes"`
	Fails int     `json:"fails"` // times, before it succeeds
	Hangs bool    `json:"hangs"` // until its context ends, instead of failing
}

type result struct {
	Value any `json:"value"`
}

// registry returns the step types of the pipelines.
func (d *drill) registry() *courier.Registry {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "drill.do", d.labor, nil)
	courier.RegisterFunc(r, "drill.write", d.write, nil)
	courier.RegisterFunc(r, "drill.read", d.read, nil)
	return r
}

// alone reports an error if another worker executes a step at the same time. It returns a
// function to call at the end.
func (d *drill) alone(job *courier.Context) func() {
	if d.working.Add(1) > 1 {
		d.Errorf("step %d %v, attempt %d, began while another worker was still executing a step", job.Step(), job.Iteration(), job.Attempt())
	}
	return func() { d.working.Add(-1) }
}

func (d *drill) labor(ctx context.Context, job *courier.Context, do labor) (result, error) {
	defer d.alone(job)()
	failures, err := d.failures(ctx, job)
	switch {
	case err != nil:
		return result{}, err
	case failures < do.Fails && do.Hangs:
		<-ctx.Done()
		return result{}, ctx.Err()
	}
	timer := time.NewTimer(time.Duration(do.Takes * float64(d.unit)))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return result{}, ctx.Err()
	case <-timer.C:
	}
	if failures < do.Fails {
		return result{}, errors.New("as told")
	}
	return result{do.Value}, nil
}

// failures returns how often the step failed in this iteration, by the records in the store. A
// failure that was not written does not count.
func (d *drill) failures(ctx context.Context, job *courier.Context) (int, error) {
	list, err := d.store.Steps(ctx, store.StepFilter{Execution: job.Execution()})
	n := 0
	for _, r := range list {
		lost := r.Reason == courier.ReasonWorkerLost
		if r.Step == job.Step() && slices.Equal(r.Iteration, job.Iteration()) && r.State == courier.StepFailed && !lost {
			n++
		}
	}
	return n, err
}

type file struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

func (d *drill) write(_ context.Context, job *courier.Context, f file) (result, error) {
	defer d.alone(job)()
	w, err := job.Files().Create(f.Name)
	if err != nil {
		return result{}, err
	}
	defer w.Close()
	if _, err := io.WriteString(w, f.Text); err != nil {
		return result{}, err
	}
	return result{f.Name}, w.Commit()
}

func (d *drill) read(_ context.Context, job *courier.Context, f file) (result, error) {
	defer d.alone(job)()
	r, err := job.Files().Open(f.Name)
	if err != nil {
		return result{}, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return result{string(b)}, err
}
