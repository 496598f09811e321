package coordination

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

// depends returns dependencies, written as "up! other? last/": one that runs on
// failure ("!"), one that accepts any end ("?"), one that refuses ("/").
func depends(text string) (list []courier.JobDependency) {
	for _, word := range strings.Fields(text) {
		d := courier.JobDependency{Job: strings.TrimRight(word, "!?/"), RunOnFailure: strings.Contains(word, "!")}
		if strings.Contains(word, "?") {
			d.RequiredStatus = courier.RequireAny
		}
		if strings.HasSuffix(word, "/") {
			d.OnUnmet = courier.RefuseUnmet
		}
		list = append(list, d)
	}
	return list
}

// jobOn saves a job that depends on others, which it saves too if they are not
// there.
func (k *kit) jobOn(name, on string) (store.Definition, error) {
	list := depends(on)
	for _, d := range list {
		if _, err := k.Load(k.Ctx(), store.Job, d.Job, 0); errors.Is(err, courier.ErrNotFound) && d.Job != name {
			k.Job(d.Job)
		}
	}
	body, err := json.Marshal(courier.Job{Name: name, DependsOn: list})
	if err != nil {
		return store.Definition{}, err
	}
	return k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: name, Body: body})
}

// of is an execution of a job that depends on others.
func (k *kit) of(job, on string) store.NewExecution {
	k.Helper()
	d, err := k.jobOn(job, on)
	k.OK(err)
	return store.NewExecution{
		ID: courier.ExecutionID(k.IDs.New()), Job: job, Version: d.Version,
		StepTypes: []string{"a", "b"}, Queue: courier.DefaultQueue, DependsOn: depends(on),
	}
}

// ends claims an execution and ends it.
func (k *kit) ends(id courier.ExecutionID, to courier.State) {
	k.Helper()
	if to == courier.Cancelled {
		k.Ask(id, courier.RequestCancel)
		return
	}
	k.Hold(id, long).End(to)
}

// waits reports an execution that does not wait for others as wanted: "job
// state" for each, and nothing if it does not wait.
func (k *kit) waits(id courier.ExecutionID, want ...string) {
	k.Helper()
	x := k.Get(id)
	var got []string
	for _, w := range x.Waits {
		got = append(got, strings.TrimSpace(w.Job+" "+string(w.State)))
		if w.Reason == "" || (w.Execution == "") != (w.State == "") {
			k.Errorf("wait %+v", w)
		}
	}
	k.Same("waits", got, want)
	list, err := k.Executions(k.Ctx(), store.Filter{Waiting: true, Limit: 1000})
	k.OK(err)
	if has := slices.ContainsFunc(list, func(l courier.Execution) bool { return l.ID == id }); has != (len(want) > 0) {
		k.Errorf("that it is among those that wait is %t", has)
	}
	if len(want) > 0 {
		k.Same("state", x.State, courier.Queued)
		k.claimedNot(id)
	}
}

// claimedNot reports an execution that can be claimed.
func (k *kit) claimedNot(id courier.ExecutionID) {
	k.Helper()
	r := k.ClaimRequest(1)
	r.Only = []courier.ExecutionID{id}
	k.Claimed("what waits", r)
}

var dependencyCases = []testCase{
	// An execution waits until the most recent execution of the job that it depends on has
	// completed; it is queued, its Waits name the job, and it can't be claimed.
	{"waits_until_the_other_completes", func(k *kit) {
		down := k.of("down", "up")
		x := k.Add(down)[0]
		if x.State != courier.Queued || len(x.Waits) != 1 || !strings.Contains(x.Waits[0].Reason, "no execution") {
			k.Errorf("created: %s", storekit.Text(x))
		}
		k.waits(x.ID, "up")
		up := k.Add(k.of("up", ""))[0].ID
		k.waits(x.ID, "up queued")
		h := k.Holder(k.Claimed("all that there is", k.ClaimRequest(5), up)[0])
		k.waits(x.ID, "up running")
		h.End(courier.Completed)
		k.waits(x.ID)
		k.Claimed("when it has completed", k.ClaimRequest(5), x.ID)
		if got := storekit.Moves(k.AuditOf(x.ID)); !strings.HasPrefix(got, ">queued queued>running") {
			k.Errorf("audit: %s", got)
		}
	}},
	{"does_not_wait_for_what_has_completed", func(k *kit) {
		down := k.of("down", "up")
		up := k.Add(k.of("up", ""))[0].ID
		k.ends(up, courier.Completed)
		x := k.Add(down)[0]
		k.Same("waits", x.Waits, nil)
		k.Claimed("at once", k.ClaimRequest(5), x.ID)
	}},
	// Executions count that were created before any job depended on theirs.
	{"counts_executions_from_before_the_dependency", func(k *kit) {
		first, second := k.Add(k.of("up", ""))[0].ID, k.Add(k.of("up", ""))[0].ID
		k.ends(second, courier.Failed)
		k.ends(first, courier.Completed)
		x := k.Add(k.of("down", "up"))[0].ID
		k.waits(x, "up failed")
		k.Ask(second, courier.RequestResume)
		k.waits(x, "up queued")
		k.ends(second, courier.Completed)
		k.waits(x)
	}},
	{"accepts_the_listed_ends", func(k *kit) {
		for on, met := range map[string][]courier.State{
			"up":  {courier.Completed},
			"up!": {courier.Completed, courier.Failed},
			"up?": {courier.Completed, courier.Failed, courier.Cancelled},
		} {
			for _, to := range []courier.State{courier.Completed, courier.Failed, courier.Cancelled} {
				list := k.Add(k.of("up", ""), k.of("down", on))
				k.ends(list[0].ID, to)
				for _, x := range []courier.ExecutionID{list[1].ID, k.Add(k.of("down", on))[0].ID} {
					if slices.Contains(met, to) {
						k.waits(x)
					} else {
						k.waits(x, "up "+string(to))
					}
				}
			}
		}
	}},
	// The execution that was created last is the most recent, whatever its id.
	{"the_one_created_last_counts", func(k *kit) {
		down := k.of("down", "up")
		later, sooner := k.of("up", ""), k.of("up", "")
		first := k.Add(sooner)[0].ID // its id is the higher one
		k.Pass(k.Unit / 10)
		last := k.Add(later)[0].ID
		x := k.Add(down)[0].ID
		k.ends(first, courier.Completed)
		k.waits(x, "up queued")
		k.ends(last, courier.Completed)
		k.waits(x)
	}},
	{"among_those_of_one_instant_the_highest_id_counts", func(k *kit) {
		down := k.of("down", "up")
		list := k.Add(k.of("up", ""), k.of("up", ""), down)
		k.ends(list[0].ID, courier.Completed)
		k.waits(down.ID, "up queued")
		k.ends(list[1].ID, courier.Completed)
		k.waits(down.ID)
	}},
	// A newer execution counts while the dependent one waits, and not after that one was released.
	{"a_newer_one_counts_from_then_on", func(k *kit) {
		x := k.Add(k.of("down", "up"))[0].ID
		first := k.Add(k.of("up", ""))[0].ID
		h := k.Hold(first, long)
		k.Pass(k.Unit / 10)
		second := k.Add(k.of("up", ""))[0].ID
		h.End(courier.Completed)
		k.waits(x, "up queued")
		k.ends(second, courier.Failed)
		k.waits(x, "up failed")
		third := k.Add(k.of("up", ""))[0].ID
		k.ends(third, courier.Completed)
		k.waits(x)
		k.Add(k.of("up", ""))
		k.waits(x) // once let through, it stays so
		k.Hold(x, long)
	}},
	{"all_must_be_met_at_once", func(k *kit) {
		x := k.Add(k.of("down", "one two! three?"))[0].ID
		k.waits(x, "one", "two", "three")
		k.ends(k.Add(k.of("one", ""))[0].ID, courier.Completed)
		k.ends(k.Add(k.of("two", ""))[0].ID, courier.Failed)
		k.waits(x, "three")
		again := k.Add(k.of("one", ""))[0].ID
		k.ends(k.Add(k.of("three", ""))[0].ID, courier.Cancelled)
		k.waits(x, "one queued")
		k.ends(again, courier.Completed)
		k.waits(x)
	}},
	// Executions that wait in a row run one after the other.
	{"steps_of_a_ladder", func(k *kit) {
		c, b := k.Add(k.of("c", "b"))[0].ID, k.Add(k.of("b", "a"))[0].ID
		a := k.Add(k.of("a", ""))[0].ID
		k.waits(c, "b queued")
		k.ends(a, courier.Completed)
		k.waits(c, "b queued")
		k.ends(b, courier.Completed)
		k.Hold(c, long)
	}},
	{"a_retry_of_the_job_is_no_end", func(k *kit) {
		x := k.Add(k.of("down", "up?"))[0].ID
		up := k.Add(k.of("up", ""))[0].ID
		h := k.Hold(up, long)
		again := h.To(courier.Queued)
		again.RetryJob, again.Failure = true, &courier.Failure{Message: "boom"}
		h.Must(again)
		k.waits(x, "up queued")
		k.ends(up, courier.Failed)
		k.waits(x)
	}},
	// A waiting execution can be paused; when it is resumed, it waits unless all dependencies are
	// met by then.
	{"pause_and_resume_while_waiting", func(k *kit) {
		x := k.Add(k.of("down", "up"))[0].ID
		up := k.Add(k.of("up", ""))[0].ID
		k.Same("state", k.Ask(x, courier.RequestPause).State, courier.Paused)
		k.waits(x)
		k.Same("state", k.Ask(x, courier.RequestResume).State, courier.Queued)
		k.waits(x, "up queued")
		k.Ask(x, courier.RequestPause)
		k.ends(up, courier.Completed)
		k.State(x, courier.Paused)
		k.Ask(x, courier.RequestResume)
		k.waits(x)
		k.Hold(x, long)
		k.Same("audit", storekit.Moves(k.AuditOf(x)), ">queued queued>paused paused>queued queued>paused paused>queued queued>running")
	}},
	{"cancel_while_waiting", func(k *kit) {
		x := k.Add(k.of("down", "up"))[0].ID
		k.Same("state", k.Ask(x, courier.RequestCancel).State, courier.Cancelled)
		k.waits(x)
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		k.State(x, courier.Cancelled)
	}},
	{"release_of_a_held_one", func(k *kit) {
		n := k.of("down", "up")
		n.Hold = true
		x := k.Add(n)[0].ID
		k.waits(x)
		k.State(x, courier.Created)
		k.Ask(x, courier.RequestRelease)
		k.waits(x, "up")
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		k.Hold(x, long)
	}},
	// An execution whose dependencies were met once never waits again.
	{"a_resume_after_a_failure_waits_for_nothing", func(k *kit) {
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		x := k.Add(k.of("down", "up"))[0].ID
		k.ends(x, courier.Failed)
		k.Add(k.of("up", ""))
		k.Ask(x, courier.RequestResume)
		k.waits(x)
		k.Hold(x, long)
	}},
	{"a_delay_goes_on", func(k *kit) {
		n := k.of("down", "up")
		n.Delay = long
		x := k.Add(n)[0]
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		k.waits(x.ID)
		k.Same("due", k.Get(x.ID).DueAt, x.CreatedAt.Add(long))
		k.claimedNot(x.ID)
	}},
	{"is_due_when_its_dependencies_are_met", func(k *kit) {
		x := k.Add(k.of("down", "up"))[0]
		up := k.Add(k.of("up", ""))[0].ID
		k.Pass(k.Unit / 10)
		k.ends(up, courier.Completed)
		if got := k.Get(x.ID); !got.DueAt.After(x.DueAt) {
			k.Errorf("it was due %v, and is %v", x.DueAt, got.DueAt)
		}
	}},
	{"an_idempotency_key_gives_the_one_that_waits", func(k *kit) {
		n := k.of("down", "up")
		n.IdempotencyKey = "key"
		x := k.Add(n)[0]
		n.ID = courier.ExecutionID(k.IDs.New())
		got, err := k.Enqueue(k.Ctx(), []store.NewExecution{n})
		k.OK(err)
		if !got[0].Existed {
			k.Error("it was created again")
		}
		k.Same("the existing one", got[0].Execution, x)
	}},
	{"the_version_of_the_execution_counts", func(k *kit) {
		old := k.of("down", "up")
		k.of("down", "other")
		x := k.Add(old)[0].ID
		k.ends(k.Add(k.of("other", ""))[0].ID, courier.Completed)
		k.waits(x, "up")
		k.ends(k.Add(k.of("up", ""))[0].ID, courier.Completed)
		k.waits(x)
	}},
	// If a dependency that refuses is not met after the whole list was created, nothing of the
	// list is created.
	{"refuses", func(k *kit) {
		n := k.of("down", "up/ other")
		refused := func(what string, list ...store.NewExecution) *courier.DependencyError {
			k.Helper()
			before := len(k.All())
			_, err := k.Enqueue(k.Ctx(), list)
			d, ok := errors.AsType[*courier.DependencyError](err)
			if !ok || !errors.Is(err, courier.ErrConflict) || d.Job != "down" || len(d.Waits) != 1 || d.Waits[0].Job != "up" {
				k.Fatalf("%s: error %v", what, err)
			}
			k.Same("executions", len(k.All()), before)
			return d
		}
		refused("no execution", n)
		up := k.of("up", "")
		refused("one in the same list", up, k.With(func(*store.NewExecution) {}), n)
		k.Add(up)
		d := refused("one that has not ended", k.With(func(*store.NewExecution) {}), n)
		k.Same("it is blamed", []any{d.Waits[0].Execution, d.Waits[0].State}, []any{up.ID, courier.Queued})
		k.ends(up.ID, courier.Completed)
		x := k.Add(n)[0].ID
		k.waits(x, "other")
		k.Add(k.of("up", ""))
		n.Hold = true
		got, err := k.Enqueue(k.Ctx(), []store.NewExecution{n})
		k.OK(err)
		if !got[0].Existed {
			k.Error("it was created again")
		}
		k.ends(k.Add(k.of("other", ""))[0].ID, courier.Completed)
		k.waits(x) // what has refused nothing once, it is not asked again
	}},
	// Await returns when an execution's dependencies are met.
	{"wakes_when_dependencies_are_met", func(k *kit) {
		x := k.Add(k.of("down", "up"))[0].ID
		h := k.Hold(k.Add(k.of("up", ""))[0].ID, long)
		k.Wakes(func() { h.End(courier.Completed) })
		k.waits(x)
	}},
	// A job that would depend on itself is not saved, nor one that depends on an unknown job.
	{"saves_no_cycle", func(k *kit) {
		for _, c := range []struct{ job, on, cycle, missing string }{
			{job: "a", on: "b"},
			{job: "b", on: "c d"},
			{job: "c", on: "a", cycle: "c -> a -> b -> c"},
			{job: "d", on: "d", cycle: "d -> d"},
			{job: "new", on: "new", cycle: "new -> new"},
			{job: "b", on: "d"},
			{job: "c", on: "a"},
			{job: "b", on: "c", cycle: "b -> c -> a -> b"},
			{job: "e", missing: "nowhere"},
		} {
			var err error
			if c.missing != "" {
				_, err = k.Save(k.Ctx(), store.Definition{Kind: store.Job, Name: c.job, Body: json.RawMessage(`{"depends_on":["` + c.missing + `"]}`)})
				k.Is("a job that is not there", err, courier.ErrNotFound)
			} else {
				_, err = k.jobOn(c.job, c.on)
			}
			cycle, ok := errors.AsType[*courier.CycleError](err)
			switch {
			case c.cycle == "" && c.missing == "":
				k.OK(err)
			case c.cycle != "" && (!ok || strings.Join(cycle.Path, " -> ") != c.cycle || !errors.Is(err, courier.ErrInvalid)):
				k.Errorf("%s on %s: error %v, want cycle %s", c.job, c.on, err, c.cycle)
			}
		}
		for job, version := range map[string]int{"b": 3, "d": 1} { // that of "b" was saved first as one that depends on nothing
			d, err := k.Load(k.Ctx(), store.Job, job, 0)
			k.OK(err)
			k.Same("versions of "+job, d.Version, version)
		}
		for _, job := range []string{"new", "e"} {
			_, err := k.Load(k.Ctx(), store.Job, job, 0)
			k.Is("what was not saved", err, courier.ErrNotFound)
		}
	}},
	{"saves_no_cycle_at_once", func(k *kit) {
		const jobs = 6
		for round := range 4 {
			var list []func()
			errs := make([]error, jobs)
			name := func(i int) string { return fmt.Sprintf("job-%d-%d", round, i%jobs) }
			for i := range jobs {
				k.Job(name(i))
			}
			for i := range jobs {
				list = append(list, func() { _, errs[i] = k.jobOn(name(i), name(i+1)) })
			}
			atOnce(list)
			failed := 0
			for _, err := range errs {
				if err != nil {
					k.Is("a save", err, courier.ErrInvalid)
					failed++
				}
			}
			k.Same("refused", failed, 1)
		}
	}},
	// An execution that is created while the others end is not stranded.
	{"ends_and_enqueues_at_once", func(k *kit) {
		k.Limit("", "0")
		k.of("down", "up other?")
		for range 5 {
			ups, others := k.Hold(k.Add(k.of("up", ""))[0].ID, long), k.Hold(k.Add(k.of("other", ""))[0].ID, long)
			before, after := k.of("down", "up other?"), k.of("down", "up other?")
			k.Add(before)
			atOnce([]func(){
				func() { k.fine(ups.EndNow(courier.Completed)) },
				func() { k.fine(others.EndNow(courier.Failed)) },
				func() {
					_, err := k.Enqueue(k.Ctx(), []store.NewExecution{after})
					k.fine(err)
				},
			})
			for _, n := range []store.NewExecution{before, after} {
				k.waits(n.ID)
				k.Hold(n.ID, long).End(courier.Completed)
			}
		}
	}},
	// Nor are those of many jobs that wait for each other in a row.
	{"many_ladders_at_once", func(k *kit) {
		k.Limit("", "0")
		const jobs, rounds = 5, 3
		var enqueued atomic.Int64
		var list []func()
		for i := range jobs {
			on := ""
			if i > 0 {
				on = fmt.Sprintf("rung-%d", i-1)
			}
			k.of(fmt.Sprintf("rung-%d", i), on)
			for range rounds {
				n := k.of(fmt.Sprintf("rung-%d", i), on)
				list = append(list, func() {
					defer enqueued.Add(1)
					_, err := k.Enqueue(k.Ctx(), []store.NewExecution{n})
					k.fine(err)
				})
			}
		}
		for range 3 { // workers, which claim for a while after all is there
			list = append(list, func() {
				for left := 400; left > 0; {
					if enqueued.Load() == jobs*rounds {
						left--
					}
					got, err := k.Claim(k.Ctx(), k.ClaimRequest(2))
					k.fine(err)
					for _, c := range got.List {
						h := k.Holder(c)
						k.fine(h.EndNow(courier.Completed))
					}
					all := k.All()
					if len(all) == jobs*rounds && !slices.ContainsFunc(all, func(x courier.Execution) bool { return !x.State.Ended() }) {
						return
					}
				}
			})
		}
		atOnce(list)
		for _, x := range k.All() {
			k.Same(x.Job, x.State, courier.Completed)
		}
	}},
}
