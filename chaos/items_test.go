package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/promise"
	"github.com/courierhq/courier/store"
)

// bad is which of a hundred items fails.
const bad = 37

// itemsJob is a job with a loop of n items, of which one in a hundred fails until a file
// exists.
func itemsJob(n int, mended string) courier.Job {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	loop := foreach(list)
	loop.Config["on_item_failure"] = "continue"
	return courier.Job{Name: "items", Steps: []courier.StepSpec{loop, does(config{"add": item, "takes": 0, "fails": "bad", "until": mended}), end}}
}

// Workers that have a pipeline of many items are killed all the time. Good items are
// executed once, bad ones are listed, and one resume repairs them when the cause is gone.
func TestItems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t), nil)
	mended := filepath.Join(w.dir, "mended")
	if _, err := w.people.Jobs().Define(t.Context(), itemsJob(*items, mended), nil); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	id := w.enqueue("items", courier.EnqueueOptions{})
	stop := w.killWorkersOf(id)
	x := w.ended(id)
	if x.State != courier.Failed || x.Failure.Reason != courier.ReasonItems || x.FailedItems != *items/100 {
		t.Fatalf("it is %s with %d failed items: %v", x.State, x.FailedItems, x.Failure)
	}
	took := time.Since(begun)
	list, err := w.people.Executions().FailedItems(t.Context(), id)
	if err != nil || len(list) != *items/100 {
		t.Fatalf("%d failed items are listed: %v", len(list), err)
	}
	for i := range list {
		if !slices.Equal(list[i].Iteration, []int{100*i + bad}) {
			t.Errorf("failed item %d is %v", i, list[i].Iteration)
		}
	}
	first := w.records(id)
	w.checkRecords(first, false)
	if err := os.WriteFile(mended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	begun = time.Now()
	w.resumeOnce(id)
	if x = w.ended(id); x.State != courier.Completed || x.FailedItems != 0 {
		t.Errorf("after the repair it is %s with %d failed items: %v", x.State, x.FailedItems, x.Failure)
	}
	repaired := time.Since(begun)
	killed := stop()
	w.stopAll()
	w.faults()
	all := w.records(id)
	w.checkRecords(all, true)
	for i, n := range first {
		if i%100 != bad && all[i] != n {
			t.Errorf("good item %d had the records %+v, and has %+v after the repair", i, n, all[i])
		}
	}
	if err := promise.Check(t.Context(), w.store, []courier.ExecutionID{id}, promise.Rules{}); err != nil {
		t.Error(err)
	}
	t.Logf("%d items in %v, %d failed ones repaired in %v; %d workers killed", *items, took.Round(time.Millisecond), *items/100, repaired.Round(time.Millisecond), killed)
}

// killWorkersOf keeps three workers going and kills the one that has the execution, again
// and again, until the returned function is called, which says how often. On each item at
// most one is killed: three workers lost in a row would make a good item fail.
func (w *world) killWorkersOf(id courier.ExecutionID) (stop func() int) {
	ctx, cancel := context.WithCancel(w.Context())
	killed := 0
	spawn := func() *process { return w.spawn(orders{Lease: time.Second, Poll: 100 * time.Millisecond, Slots: 2}) }
	workers := []*process{spawn(), spawn(), spawn()}
	var group sync.WaitGroup
	group.Go(func() {
		var at courier.Position // when a worker was last killed, or a moment before
		for ctx.Err() == nil {
			x, err := w.store.Execution(ctx, id)
			i := slices.IndexFunc(workers, func(p *process) bool {
				return err == nil && x.State == courier.Running && p.name == x.Worker && !reflect.DeepEqual(x.Position, at)
			})
			pause := 20 * time.Millisecond
			if i >= 0 {
				pause = 300*time.Millisecond + rand.N(time.Second) // so that it comes further than the step
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if i >= 0 {
				w.kill(workers[i])
				if x, err = w.store.Execution(ctx, id); err == nil {
					at = x.Position
				}
				workers[i] = spawn()
				killed++
			}
		}
	})
	stop = func() int {
		cancel()
		group.Wait()
		return killed
	}
	w.Cleanup(func() { stop() })
	return stop
}

// ended waits until an execution has ended.
func (w *world) ended(id courier.ExecutionID) (x courier.Execution) {
	w.Helper()
	w.within(patience+time.Duration(*items)*20*time.Millisecond, "it has ended", func() bool {
		now, err := w.store.Execution(w.Context(), id)
		x = now
		return err == nil && x.State.Ended()
	})
	return x
}

// resumeOnce has an execution resumed. Of an answer that was lost nobody knows whether the
// resume took effect, so that it may have ended again.
func (w *world) resumeOnce(id courier.ExecutionID) {
	w.Helper()
	_, err := w.people.Resume(w.Context(), id, &courier.ResumeOptions{By: courier.By{Actor: "people", Reason: "the cause is gone"}})
	if _, late := errors.AsType[*courier.TransitionError](err); err != nil && !late {
		w.Fatal(err)
	}
}

// An itemRecords is what is recorded and noted of an item.
type itemRecords struct{ completed, failed, lost, begun int }

// records counts the records of each item, and what the steps themselves have noted.
func (w *world) records(id courier.ExecutionID) map[int]itemRecords {
	w.Helper()
	all := make(map[int]itemRecords)
	for after := int64(0); ; {
		page, err := w.store.Steps(w.Context(), store.StepFilter{Execution: id, After: after})
		if err != nil {
			w.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			r := &page[i]
			n := all[r.Iteration[0]]
			switch {
			case r.State == courier.StepCompleted:
				n.completed++
			case r.Reason == courier.ReasonWorkerLost:
				n.lost++
			default:
				n.failed++
			}
			all[r.Iteration[0]] = n
			after = r.Seq
		}
	}
	err := readJournals(w.dir, ".notes", func(_ string, line *note) {
		var i int
		if _, err := fmt.Sscan(line.Iteration, &i); err == nil && line.What == began {
			n := all[i]
			n.begun++
			all[i] = n
		}
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// checkRecords checks that each good item was completed once, that each bad one has failed
// once and was completed once if they are repaired, and that no step has begun without a
// record: one that was completed did not begin again.
func (w *world) checkRecords(all map[int]itemRecords, repaired bool) {
	w.Helper()
	for i := range *items {
		n := all[i]
		want := itemRecords{completed: 1, lost: n.lost, begun: n.begun}
		if i%100 == bad {
			want.failed = 1
			if !repaired {
				want.completed = 0
			}
		}
		if n != want || n.begun > n.completed+n.failed+n.lost {
			w.Errorf("item %d has the records %+v, want %+v", i, n, want)
		}
	}
}
