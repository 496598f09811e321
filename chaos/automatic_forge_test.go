package chaos

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
)

// A forgery makes evidence of what went on by itself one that cannot be, in a
// copy of which maps and lists are its own; it reports false where there is
// nothing to forge.
type forgery struct {
	name string
	do   func(a *automation, c *evidence) bool
}

var forgeries = []forgery{
	{"what a tick has started is missing", func(a *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return a.must(x) })
		return x != nil && c.remove(x)
	}},
	{"a tick has fired twice", func(a *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return a.must(x) })
		return x != nil && c.add(*x)
	}},
	{"a schedule has fired where it has no tick", func(a *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return a.must(x) })
		if x == nil {
			return false
		}
		other := *x
		other.IdempotencyKey = strings.TrimSuffix(x.IdempotencyKey, "Z") + ".001Z"
		return !strings.Contains(x.IdempotencyKey, ".") && c.add(other)
	}},
	{"one began while another ran, and was to be left out", func(a *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool {
			name, _ := strings.CutPrefix(x.By, "schedule:")
			return x.Chain == "" && a.schedules[name] != nil && a.schedules[name].skips
		})
		if x == nil {
			return false
		}
		other := *x
		other.EndedAt = x.EndedAt.Add(time.Hour)
		c.executions[x.ID] = &other
		last := c.pick(func(y *courier.Execution) bool { return y.By == x.By && y.CreatedAt.After(x.CreatedAt) })
		return last != nil
	}},
	{"a member was never executed", func(_ *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return x.Chain != "" })
		return x != nil && c.remove(x)
	}},
	{"a member was executed twice", func(_ *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return x.Chain != "" })
		return x != nil && c.add(*x)
	}},
	{"a member was skipped that had to begin", func(_ *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return x.Chain != "" })
		if x == nil {
			return false
		}
		m := c.chain(func(ch *chain.Execution) bool { return ch.ID == x.Chain && ch.State != chain.Cancelled }).Member(x.Member)
		if m == nil {
			return false
		}
		m.State, m.Execution = chain.MemberSkipped, ""
		return c.remove(x)
	}},
	{"a member began that had to be skipped", func(_ *automation, c *evidence) bool {
		skipped := func(m chain.MemberExecution) bool { return m.State == chain.MemberSkipped }
		// Where the chain was cancelled, a member may have been skipped only because of that.
		ch := c.chain(func(ch *chain.Execution) bool {
			return ch.State != chain.Cancelled && slices.ContainsFunc(ch.Members, skipped)
		})
		x := c.pick(func(x *courier.Execution) bool { return x.State == courier.Completed && x.Job == "tick" })
		i := slices.IndexFunc(ch.Members, skipped)
		if x == nil || i < 0 || ch.Members[i].Job != x.Job {
			return false
		}
		other := *x
		other.Chain, other.Member, other.By = ch.ID, ch.Members[i].Name, ""
		other.ID = forged(x.ID)
		ch.Members[i].State, ch.Members[i].Execution = chain.MemberState(x.State), other.ID
		c.executions[other.ID] = &other
		return true
	}},
	{"a chain came to another end", func(_ *automation, c *evidence) bool {
		ch := c.chain(func(ch *chain.Execution) bool { return ch.State != chain.Cancelled })
		ch.State = map[chain.State]chain.State{
			chain.Completed: chain.Failed, chain.Failed: chain.Completed,
		}[ch.State]
		return ch.State != ""
	}},
	{"a chain has not ended", func(_ *automation, c *evidence) bool {
		c.chain(func(*chain.Execution) bool { return true }).State = chain.Running
		return true
	}},
	{"a chain is missing", func(_ *automation, c *evidence) bool {
		i := rand.IntN(len(c.chains))
		c.chains = slices.Delete(c.chains, i, i+1)
		return true
	}},
	{"an event is missing", func(_ *automation, c *evidence) bool { return c.unhear(eachTold) }},
	{"events that were told together are missing", func(_ *automation, c *evidence) bool { return c.unhear(joined) }},
	{"an event has started nothing", func(_ *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return x.Job == follower })
		return x != nil && c.remove(x)
	}},
	{"an event has started two executions", func(_ *automation, c *evidence) bool {
		x := c.pick(func(x *courier.Execution) bool { return x.Job == follower })
		return x != nil && c.add(*x)
	}},
	{"an event was told that never happened", func(_ *automation, c *evidence) bool {
		h := c.heard[rand.IntN(len(c.heard))]
		h.Notification.ID += "0"
		h.Notification.Seq *= 10
		c.heard = append(c.heard, h)
		return true
	}},
	{"an event was told in two ways", func(_ *automation, c *evidence) bool {
		h := c.heard[rand.IntN(len(c.heard))]
		h.Notification.At = h.Notification.At.Add(time.Microsecond)
		c.heard = append(c.heard, h)
		return true
	}},
}

// must reports whether an execution is of a tick that must fire.
func (a *automation) must(x *courier.Execution) bool {
	name, of := strings.CutPrefix(x.By, "schedule:")
	return of && x.Chain == "" && a.schedules[name] != nil && !a.schedules[name].skips && !a.schedules[name].perhaps
}

// pick returns one of the executions that fit, nil if none does.
func (c *evidence) pick(fits func(*courier.Execution) bool) *courier.Execution {
	var list []*courier.Execution
	for _, x := range c.executions {
		if fits(x) {
			list = append(list, x)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[rand.IntN(len(list))]
}

// chain returns one of the chain executions that fit, to be changed; an empty
// one if none does.
func (c *evidence) chain(fits func(*chain.Execution) bool) *chain.Execution {
	for _, i := range rand.Perm(len(c.chains)) {
		if ch := &c.chains[i]; fits(ch) {
			ch.Members = slices.Clone(ch.Members)
			return ch
		}
	}
	return &chain.Execution{}
}

// unhear forgets all deliveries of an event to a subscription.
func (c *evidence) unhear(subscription string) bool {
	n := c.heard[rand.IntN(len(c.heard))].Notification
	c.heard = slices.DeleteFunc(c.heard, func(h heard) bool {
		return h.Notification.ID == n.ID && h.Notification.Subscription == n.Subscription
	})
	return n.Subscription == subscription
}

func (c *evidence) remove(x *courier.Execution) bool {
	delete(c.executions, x.ID)
	return true
}

// add adds an execution under another id.
func (c *evidence) add(x courier.Execution) bool {
	x.ID = forged(x.ID)
	c.executions[x.ID] = &x
	return true
}

// forged is an id like another one.
func forged(id courier.ExecutionID) courier.ExecutionID { return "f" + id[1:] }

// unusual is how many kinds of forgery evidence may have no material for: where
// the machine is slow, a schedule that skips may have started one execution only.
const unusual = 2

// forge checks that evidence which was found good is found bad when it is
// forged.
func (a *automation) forge(t *testing.T, c *evidence) {
	t.Helper()
	if err := a.judge(c); err != nil {
		return // which has been reported
	}
	var none []string
	for _, f := range forgeries {
		made := 0
		for try := 0; made < 3 && try < 200; try++ {
			other := *c
			other.executions, other.chains, other.heard = maps.Clone(c.executions), slices.Clone(c.chains), slices.Clone(c.heard)
			if !f.do(a, &other) {
				continue
			}
			made++
			if a.judge(&other) == nil {
				t.Errorf("forged evidence was accepted: %s", f.name)
			}
		}
		if made == 0 {
			none = append(none, f.name)
		}
	}
	t.Logf("evidence was forged in %d of %d ways, not in these: %q", len(forgeries)-len(none), len(forgeries), none)
	if len(none) > unusual {
		t.Errorf("in %d ways no evidence could be forged, want %d at most", len(none), unusual)
	}
}
