package chaos

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/notify"
)

// The subscriptions, by what comes of them: each event is told, or events that
// come together are told together, or each starts a job.
const (
	eachTold = "all that ends"
	joined   = "ticks at once"
	follows  = "after a failure"
)

// follower is the job that failures start.
const follower = "follow"

var someSubscriptions = []notify.Subscription{
	{
		Name: eachTold, Kind: notify.KindFunc, Func: subscriber, Events: []courier.EventType{
			courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobCancelled,
			courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed,
		},
	},
	{
		Name: joined, Kind: notify.KindFunc, Func: subscriber, Events: []courier.EventType{courier.EventJobCompleted},
		Jobs: []string{"tick"}, Window: new(700 * time.Millisecond),
	},
	{
		Name: follows, Kind: notify.KindJob, Events: []courier.EventType{courier.EventJobFailed},
		Jobs: []string{"chancy"}, Job: &notify.JobTarget{Name: follower},
	},
}

// An event is what a subscriber has to be told.
type event struct {
	typ courier.EventType
	of  string // execution or chain execution
	job string
}

// events returns what the audits say that has ended, by the ids of the events.
func (c *evidence) events() map[string]event {
	all := make(map[string]event)
	for id, audit := range c.audits {
		for i := range audit {
			if e := &audit[i]; e.Step == nil && courier.State(e.To).Ended() {
				typ := map[courier.State]courier.EventType{
					courier.Completed: courier.EventJobCompleted, courier.Failed: courier.EventJobFailed, courier.Cancelled: courier.EventJobCancelled,
				}[courier.State(e.To)]
				all[fmt.Sprintf("%s-%d", id, e.Seq)] = event{typ, string(id), c.jobs[id]}
			}
		}
	}
	return all
}

// delivered reports events that were not delivered, or that never happened, or
// that were not always told as the same.
func (c *evidence) delivered() error {
	want := c.events()
	told := make(map[string]map[string]notify.Notification) // by subscription and id
	var errs []error
	for i := range c.heard {
		n := &c.heard[i].Notification
		if told[n.Subscription] == nil {
			told[n.Subscription] = make(map[string]notify.Notification)
		}
		if before, again := told[n.Subscription][n.ID]; again && !reflect.DeepEqual(before, *n) {
			errs = append(errs, fmt.Errorf("event %s was told as\n\t%+v and as\n\t%+v", n.ID, before, *n))
		}
		told[n.Subscription][n.ID] = *n
	}
	return errors.Join(errors.Join(errs...), c.toldEach(want, told[eachTold]), toldTogether(want, told[joined]), c.followedUp(want))
}

// toldEach compares what happened with what was told one by one.
func (c *evidence) toldEach(want map[string]event, told map[string]notify.Notification) error {
	var errs []error
	chains := make(map[courier.ChainExecutionID][]notify.Notification)
	for id, n := range told {
		if n.ChainExecution != "" {
			of := courier.ChainExecutionID(n.ChainExecution)
			chains[of] = append(chains[of], n)
		} else if e := (event{n.Type, string(n.Execution), n.Job}); want[id] != e {
			errs = append(errs, fmt.Errorf("event %s was told as %v, and it is %v", id, e, want[id]))
		}
	}
	for id, e := range want {
		if _, ok := told[id]; !ok {
			errs = append(errs, fmt.Errorf("event %s, %s of execution %s, was not delivered", id, e.typ, e.of))
		}
	}
	for i := range c.chains {
		if err := deliveredOf(&c.chains[i], chains[c.chains[i].ID]); err != nil {
			errs = append(errs, fmt.Errorf("chain execution %s of %q, %s: %w", c.chains[i].ID, c.chains[i].Chain, c.chains[i].State, err))
		}
		delete(chains, c.chains[i].ID)
	}
	for id := range chains {
		errs = append(errs, fmt.Errorf("there were events of chain execution %s, which is not there", id))
	}
	return errors.Join(errs...)
}

// deliveredOf checks the events of a chain execution: it has started, it may have
// failed several times, and in the end it is what it is.
func deliveredOf(c *chain.Execution, list []notify.Notification) error {
	slices.SortFunc(list, func(a, b notify.Notification) int { return cmp.Compare(a.Seq, b.Seq) })
	var got []courier.EventType
	for i := range list {
		n := &list[i]
		if n.Seq != int64(i+1) || n.ID != fmt.Sprintf("%s-%d", c.ID, n.Seq) || n.Chain != c.Chain {
			return fmt.Errorf("its event %d is %+v", i+1, n)
		}
		got = append(got, n.Type)
	}
	want := []courier.EventType{courier.EventChainStarted}
	for len(want)+1 < len(got) {
		want = append(want, courier.EventChainFailed)
	}
	switch c.State {
	case chain.Completed:
		want = append(want, courier.EventChainCompleted)
	case chain.Failed:
		want = append(want, courier.EventChainFailed)
	default:
		if len(got) > 1 {
			want = append(want, courier.EventChainFailed)
		}
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("its events are %v, not %v", got, want)
	}
	return nil
}

// toldTogether compares what happened with what was told together: each event is
// part of one notification. Of those that stand for very many, some are counted
// and not named.
func toldTogether(want map[string]event, told map[string]notify.Notification) error {
	var errs []error
	seen := make(map[string]bool)
	count, expected := 0, 0
	see := func(id string) {
		if e := want[id]; seen[id] || e.typ != courier.EventJobCompleted || e.job != "tick" {
			errs = append(errs, fmt.Errorf("event %s was told in another notification before, or is none of a tick: %v", id, e))
		}
		seen[id] = true
	}
	for id, n := range told {
		count += n.Count
		see(id)
		for i := range n.Coalesced {
			see(n.Coalesced[i].ID)
		}
	}
	for _, e := range want {
		if e.typ == courier.EventJobCompleted && e.job == "tick" {
			expected++
		}
	}
	if count != expected {
		errs = append(errs, fmt.Errorf("%d ticks were completed, and %d were told in %d notifications", expected, count, len(told)))
	}
	return errors.Join(errs...)
}

// followedUp compares the failures that happened with the executions that they
// have started: one each.
func (c *evidence) followedUp(want map[string]event) error {
	var errs []error
	begun := make(map[string]courier.ExecutionID) // by the id of the event
	for id, x := range c.executions {
		if x.Job != follower {
			continue
		}
		var params struct{ Event struct{ ID string } }
		if err := json.Unmarshal(x.Params, &params); err != nil {
			errs = append(errs, fmt.Errorf("execution %s: %w", id, err))
		}
		of := params.Event.ID
		if e := want[of]; e.typ != courier.EventJobFailed || e.job != "chancy" || begun[of] != "" {
			errs = append(errs, fmt.Errorf("execution %s follows event %q, which is %v; so does %q", id, of, e, begun[of]))
		}
		begun[of] = id
	}
	for id, e := range want {
		if e.typ == courier.EventJobFailed && e.job == "chancy" && begun[id] == "" {
			errs = append(errs, fmt.Errorf("event %s, the failure of execution %s, has started nothing", id, e.of))
		}
	}
	return errors.Join(errs...)
}
