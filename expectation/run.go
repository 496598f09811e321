package expectation

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
)

// Limits and intervals of the loop.
const (
	maxLooks  = 1000        // at once
	lookLease = time.Minute // for which this engine leases an expectation
	keptFor   = 400         // days for which arrivals are kept
)

// Wake makes [Service.Run] look for due expectations, for example when one may have been saved,
// unless it looks soon anyway.
func (v *Service) Wake() { v.loop.Wake() }

// Run looks at due expectations until ctx ends. It returns at once if the store keeps no
// expectations. An engine calls it while it is started; several engines may do so for one store.
func (v *Service) Run(ctx context.Context) {
	a, err := v.opt.Store()
	if err != nil {
		return
	}
	v.loop.Run(ctx, func() (time.Duration, bool, error) { return v.lookAtDue(ctx, a) })
}

// lookAtDue looks at the due expectations, and returns the time until the next one is due. None
// reports that none was due.
func (v *Service) lookAtDue(ctx context.Context, a Store) (next time.Duration, none bool, err error) {
	base := context.WithoutCancel(ctx) // leased expectations are looked at even if the engine is stopped
	call, cancel := context.WithTimeout(base, storecall.Timeout)
	due, err := a.DueExpectations(call, DueRequest{Max: maxLooks, Lease: lookLease})
	cancel()
	if err != nil || len(due.List) == 0 {
		return due.Next, true, err
	}
	known := make(map[string]*calendar.Days)
	looks := make([]Look, 0, len(due.List))
	soonest := time.Hour // unless the loop asks before
	for i := range due.List {
		look, err := v.lookAt(base, &due.List[i], due.Now, known)
		if err != nil {
			v.opt.Log.Error("check an expectation", "expectation", due.List[i].Name, "error", err)
			continue // the store fails; the lease ends
		}
		if look.After >= 0 {
			soonest = min(soonest, look.After)
		}
		looks = append(looks, look)
	}
	if err := v.record(base, a, looks); err != nil {
		return 0, false, err
	}
	if due.Next > 0 {
		soonest = min(soonest, due.Next)
	}
	return max(soonest, time.Millisecond), false, nil
}

// record writes looks. It may send them again: the store writes a look only once.
func (v *Service) record(ctx context.Context, a Store, looks []Look) error {
	if len(looks) == 0 {
		return nil
	}
	done, err := storecall.Write(ctx, func(ctx context.Context) ([]bool, error) { return a.RecordLooks(ctx, looks) })
	if err != nil {
		return err
	}
	var events []Event
	for i := range looks {
		if done[i] {
			events = append(events, looks[i].Events...)
		}
	}
	if len(events) > 0 {
		v.opt.Happened(events)
	}
	return nil
}

// lookAt evaluates the files of a due expectation. The error is from the store.
func (v *Service) lookAt(ctx context.Context, d *Due, now time.Time, known map[string]*calendar.Days) (Look, error) {
	m := readMemory(d.Memory)
	l := Look{Expectation: d.Name, Revision: d.Revision}
	t, err := v.timetable(ctx, &d.Record, known)
	if err == nil {
		in := seen{now: now, records: make(map[calendar.Date]*Arrival), newID: v.opt.NewID}
		if err = d.read(&in); err == nil {
			m.Problem = d.problem()
			out := t.look(m, in)
			for _, a := range out.changed {
				l.Arrivals = append(l.Arrivals, a.Kept())
			}
			l.Progress, l.After, l.Events = out.memory.progress(), out.after, out.events
			if out.memory.Through != m.Through {
				l.Forget = (calendar.DateOf(now) - keptFor).String()
			}
			return l, nil
		}
	}
	if !errors.Is(err, courier.ErrNotFound) && !errors.Is(err, courier.ErrInvalid) {
		return l, err
	}
	if problem := text.Plain(err); problem != m.Problem {
		m.Problem = problem
		v.opt.Log.Warn("an expectation can't be followed", "expectation", d.Name, "problem", problem)
	}
	l.Progress, l.After = m.progress(), idleEvery
	return l, nil
}

// problem says why files can't be seen; empty if they can.
func (d *Due) problem() string {
	if d.Monitor == "" {
		return ""
	}
	if d.Watch == nil {
		return "there is no monitor \"" + d.Monitor + "\" any more"
	}
	var h monitor.Health
	switch {
	case json.Unmarshal(d.Watch.Health, &h) != nil || h.Problem == "":
		return ""
	case d.Monitor == monitor.LookName(d.Name):
		return h.Problem
	}
	return "monitor \"" + d.Monitor + "\": " + h.Problem
}

// read sets the input of a look. Its error matches [courier.ErrInvalid].
func (d *Due) read(in *seen) error {
	for i := range d.Arrivals {
		a, err := d.Arrivals[i].arrival()
		if err != nil {
			return courier.Errorf(courier.ErrInvalid, "%v", err)
		}
		in.records[a.Day()] = &a
	}
	if d.Job != "" {
		in.looked = in.now
		for i := range d.Received {
			r := &d.Received[i]
			name := r.Path[strings.LastIndexByte(r.Path, '/')+1:]
			in.sightings = append(in.sightings, Sighting{Name: name, Size: r.Size, Seen: r.At, Appeared: int(r.Seq), Execution: r.Execution})
		}
		return nil
	}
	var def monitor.Monitor
	if d.Watch == nil || json.Unmarshal(d.Watch.Body, &def) != nil {
		return nil
	}
	def = def.WithDefaults()
	var h monitor.Health
	if json.Unmarshal(d.Watch.Health, &h) == nil && h.Failures == 0 {
		in.looked, in.took = h.LastPoll, time.Duration(h.PollSeconds*float64(time.Second))
	}
	for i := range d.Seen {
		f := &d.Seen[i]
		ready := f.Handed == f.Appeared
		if f.MissingSince.IsZero() && !ready {
			ready = def.DoneFile != "" && f.Done || def.DoneFile == "" && in.now.Sub(f.Since) >= def.Stable
		}
		if def.DoneFile != "" && strings.HasSuffix(f.Name, def.DoneFile) {
			continue
		}
		in.sightings = append(in.sightings, Sighting{
			Name: f.Name, Size: f.Size, Modified: f.Modified, Seen: f.Since, Appeared: f.Appeared, Execution: f.Execution, Waiting: !ready,
		})
	}
	slices.SortStableFunc(in.sightings, func(a, b Sighting) int { return a.Seen.Compare(b.Seen) })
	return nil
}
