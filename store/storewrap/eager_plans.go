package storewrap

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
)

var (
	_ schedule.Store = (*eager)(nil)
	_ chain.Store    = (*eager)(nil)
)

// StartChains creates chain executions, and keeps the first steps of their
// members.
func (e *eager) StartChains(ctx context.Context, list []chain.NewExecution) ([]chain.Started, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	got, err := e.roles.StartChains(ctx, list)
	if err == nil {
		e.members(list, got)
	}
	return got, err
}

// members keeps the first steps of the members of started chain executions.
func (e *eager) members(list []chain.NewExecution, got []chain.Started) {
	for i := range got {
		if got[i].Existed {
			continue
		}
		for k := range list[i].Members {
			if n := &list[i].Members[k].Execution; n.First != nil {
				e.first[n.ID] = n.First
			}
		}
	}
}

// RequestChain forgets the first steps of the executions to which it made a request.
func (e *eager) RequestChain(ctx context.Context, r chain.Request) (chain.Execution, []courier.Execution, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, asked, err := e.roles.RequestChain(ctx, r)
	for i := range asked {
		delete(e.first, asked[i].ID)
	}
	return c, asked, err
}

// PutSchedule calls the wrapped store, as do the following methods.
func (e *eager) PutSchedule(ctx context.Context, s schedule.Record) (schedule.Record, error) {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return schedule.Record{}, err
	}
	return a.PutSchedule(ctx, s)
}

func (e *eager) RemoveSchedule(ctx context.Context, name string) error {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return err
	}
	return a.RemoveSchedule(ctx, name)
}

func (e *eager) Schedules(ctx context.Context, f schedule.Filter) (schedule.List, error) {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return schedule.List{}, err
	}
	return a.Schedules(ctx, f)
}

func (e *eager) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return schedule.DueList{}, err
	}
	return a.DueSchedules(ctx, most, lease)
}

// FireSchedules carries out firings, and keeps the first steps of the executions that they start.
func (e *eager) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	fired, err := a.FireSchedules(ctx, list)
	for i := range fired {
		if !fired[i].Done {
			continue
		}
		for k, got := range fired[i].Executions {
			if n := &list[i].Executions[k]; !got.Existed && n.First != nil {
				e.first[n.ID] = n.First
			}
		}
		e.members(list[i].Chains, fired[i].Chains)
	}
	return fired, err
}

func (e *eager) AwaitSchedules(ctx context.Context, since uint64) error {
	a, err := schedulesOf(e.Store)
	if err != nil {
		return err
	}
	return a.AwaitSchedules(ctx, since)
}
