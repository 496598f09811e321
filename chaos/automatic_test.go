package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store/pgstore"
)

// startedByWorkers is the chain that workers start, where people do otherwise.
const startedByWorkers = "diamond"

func member(name, job string, on ...chain.Dependency) chain.Member {
	return chain.Member{Name: name, Job: job, DependsOn: on}
}

// on, evenFailed and anyEnd are the three kinds of dependencies.
func on(member string) chain.Dependency { return chain.Dependency{Member: member} }
func evenFailed(member string) chain.Dependency {
	return chain.Dependency{Member: member, RunOnFailure: true}
}
func anyEnd(member string) chain.Dependency {
	return chain.Dependency{Member: member, RequiredStatus: courier.RequireAny}
}

// someChains are the chains that are the same in every run. The members of each
// come after those that they depend on.
var someChains = []chain.Chain{
	{Name: "diamond", Members: []chain.Member{
		member("first", "plain"), member("left", "chancy", on("first")), member("right", "retried", on("first")),
		member("join", "tick", on("left"), on("right")), member("tidy", "tick", evenFailed("join")),
	}},
	{Name: "ladder", Members: []chain.Member{
		member("a", "tick"), member("b", "chancy", on("a")), member("c", "again", on("a")), member("d", "tick", anyEnd("b"), on("c")),
		member("e", "chancy", on("d")), member("f", "loop", on("d")), member("g", "tick", on("e"), on("f")),
		member("h", "files", evenFailed("g"), anyEnd("b")),
	}},
	{Name: "mended", Members: []chain.Member{
		member("a", mending), member("b", "tick", on("a")), member("c", "tick", evenFailed("a")), member("d", "skipping", on("b"), anyEnd("c")),
	}},
	{Name: "night", Members: []chain.Member{
		member("a", "tick"), member("b", "chancy", on("a")), member("c", "tick", on("a")), member("d", "tick", evenFailed("b"), on("c")),
	}},
}

// mending is a job that fails, and is completed by a resume.
const mending = "failing"

// anyChain returns a chain of four to eight members that depend on each other at
// random.
func anyChain(name string) chain.Chain {
	c := chain.Chain{Name: name}
	jobs := []string{"tick", "tick", "chancy", "chancy", "retried", "plain"}
	for i := range 4 + rand.IntN(5) {
		m := member(fmt.Sprintf("m%d", i), jobs[rand.IntN(len(jobs))])
		for _, to := range rand.Perm(i)[:min(i, rand.IntN(4))] {
			kind := []func(string) chain.Dependency{on, on, evenFailed, anyEnd}[rand.IntN(4)]
			m.DependsOn = append(m.DependsOn, kind(c.Members[to].Name))
		}
		c.Members = append(c.Members, m)
	}
	return c
}

// A timetable is when a schedule fires.
type timetable struct {
	chain bool          // it starts a chain
	every time.Duration // from one tick to the next, counted from some second; 0: just once, at
	late  time.Duration // after the second
	at    time.Time
	skips bool // the ticks while something runs that it has started

	first, last time.Time // of the ticks that fired
	perhaps     bool      // nobody knows whether it was set
}

// after1970 is an instant in the past that is so late after a second. Schedules that
// count from there fire apart from others, so there are more calls to do so.
func after1970(late time.Duration) time.Time { return time.Unix(0, 0).Add(late).UTC() }

var someSchedules = []struct {
	schedule.Schedule
	timetable
}{
	{
		schedule.Schedule{Name: "every", Job: "tick", Every: time.Second, Misfire: schedule.MisfireAll, Window: time.Hour},
		timetable{every: time.Second},
	},
	{
		schedule.Schedule{
			Name: "cron", Job: "retried", Cron: "0/2 * * * * ?", Zone: "Europe/Berlin", Jitter: time.Second / 2,
			Misfire: schedule.MisfireAll, Window: time.Hour,
		},
		timetable{every: 2 * time.Second},
	},
	{
		schedule.Schedule{Name: "skips", Job: "long", Every: time.Second, Starts: after1970(time.Second / 4), Overlap: schedule.OverlapSkip},
		timetable{every: time.Second, late: time.Second / 4, skips: true},
	},
	{
		schedule.Schedule{Name: "nightly", Chain: "night", Every: time.Second, Starts: after1970(time.Second / 2), Misfire: schedule.MisfireAll},
		timetable{every: time.Second, late: time.Second / 2, chain: true},
	},
	{
		schedule.Schedule{
			Name: "nightly, one at a time", Chain: "ladder", Every: time.Second, Starts: after1970(3 * time.Second / 4),
			Overlap: schedule.OverlapSkip,
		},
		timetable{every: time.Second, late: 3 * time.Second / 4, chain: true, skips: true},
	},
}

// An impatient store leases schedules and deliveries for as long as workers here
// lease executions, so that others soon have what a killed one had.
type impatient struct{ *pgstore.Store }

func (s impatient) DueSchedules(ctx context.Context, most int, lease time.Duration) (schedule.DueList, error) {
	return s.Store.DueSchedules(ctx, most, min(lease, brisk.Lease))
}

func (s impatient) DueDeliveries(ctx context.Context, r notify.DueRequest) (notify.DueList, error) {
	r.Lease = min(r.Lease, brisk.Lease)
	return s.Store.DueDeliveries(ctx, r)
}

// subscriber is the name of the function that hears of events.
const subscriber = "ear"

// An ear writes down what it hears.
type ear struct {
	to    *journal
	point func(name string)
}

// heard is that an event was delivered.
type heard struct {
	At           int64               `json:"t"` // monotonic
	Notification notify.Notification `json:"n"`
	worker       string
}

// subscribers are the functions that an engine calls; e is nil for one that
// delivers nothing.
func subscribers(e *ear) map[string]func(context.Context, notify.Notification) error {
	return map[string]func(context.Context, notify.Notification) error{
		subscriber: func(_ context.Context, n notify.Notification) error {
			if e == nil {
				return errors.New("this engine does not deliver")
			}
			e.point("delivery begins")
			h := heard{Notification: n}
			h.At, _ = clocks()
			e.to.write(&h)
			e.point("delivery ends")
			return nil
		},
	}
}

// startChains starts chains until the process ends, each until it is
// acknowledged. Somebody else makes sure of them afterwards.
func (w *worker) startChains(ctx context.Context) {
	for i := 0; i < 100; {
		if _, err := w.engine.Chains().Start(ctx, startedByWorkers, &chain.StartOptions{IdempotencyKey: keyOf(w.Name, i)}); err == nil {
			i++
		} else {
			pause(ctx, 20*time.Millisecond)
		}
	}
}

// nameFiring is the point that the firing of schedules is; empty if that starts
// nothing.
func nameFiring(list []schedule.Firing) string {
	name := ""
	for i := range list {
		if len(list[i].Chains) > 0 {
			return "fire chains"
		}
		if len(list[i].Executions) > 0 {
			name = "fire jobs"
		}
	}
	return name
}
