package chains

import (
	"context"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/storecall"
	"github.com/courierhq/courier/store"
)

// maxObserved is of how many chain executions the last event is remembered.
const maxObserved = 1000

// observed has the last event of chain executions that observers were given.
type observed struct {
	mu   sync.Mutex
	last map[courier.ChainExecutionID]moment
}

// A moment is an event and when the chain execution had ended by it, if it had. A retry
// may fail again.
type moment struct {
	event courier.EventType
	ended time.Time
}

// news records the last event of a chain execution, and reports whether it is another
// one than before.
func (o *observed) news(id courier.ChainExecutionID, m moment) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last[id] == m {
		return false
	}
	if o.last == nil || len(o.last) >= maxObserved {
		o.last = make(map[courier.ChainExecutionID]moment)
	}
	o.last[id] = m
	return true
}

// MemberEnded gives observers the end of a chain execution, if the end of one of its
// members, which this engine has written, was that.
func (v *Service) MemberEnded(ctx context.Context, id courier.ChainExecutionID) {
	if !v.cfg.Observed() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storecall.Timeout)
	defer cancel()
	c, err := v.Execution(ctx, id)
	if err != nil {
		v.cfg.Log.Warn("observers are not told how the chain execution stands", "chain_execution", string(id), "error", err)
		return
	}
	v.Moved(&c, false)
}

// Started gives observers the events of chain executions that were started.
func (v *Service) Started(list []store.StartedChain) {
	for i := range list {
		v.Moved(&list[i].Execution, !list[i].Existed)
	}
}

// Moved gives observers the event of a chain execution that this engine has started or
// changed.
func (v *Service) Moved(c *courier.ChainExecution, started bool) {
	ev := courier.Event{ChainExecution: c.ID, Chain: c.Chain, Version: c.Version, Step: -1}
	switch {
	case !v.cfg.Observed():
		return
	case c.State == courier.ChainCompleted:
		ev.Type = courier.EventChainCompleted
	case c.State == courier.ChainFailed:
		ev.Type = courier.EventChainFailed
		if c.Failure != nil {
			ev.Error = c.Failure.Message
		}
	case started && c.State == courier.ChainRunning:
		ev.Type, ev.By = courier.EventChainStarted, c.By
	}
	if ev.Type != "" && v.observed.news(c.ID, moment{ev.Type, c.EndedAt}) {
		v.cfg.Observe(ev)
	}
}
