package outcome_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/dashboard/internal/outcome"
	"github.com/courierhq/courier/dashboard/internal/problem"
)

// TestOnce: a form that is sent twice within a minute is carried out once, also at the same time,
// and both get the same answer. One without a key, or that was refused, is carried out again.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcome.Recent
		n, mu := 0, sync.Mutex{}
		send := func(id string, keyed bool, err error) outcome.Result {
			return o.Once(id, keyed, func() outcome.Result {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				n++
				return outcome.Result{To: fmt.Sprint(n), Err: err}
			})
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if r := send("a", true, nil); r.To != "1" {
					t.Errorf("%+v", r)
				}
			})
		}
		all.Wait()
		refused := errors.New("refused")
		for _, c := range []struct {
			after time.Duration
			id    string
			keyed bool
			err   error
			want  string
		}{
			{0, "a", true, nil, "1"}, {0, "b", true, nil, "2"}, {0, "a", false, nil, "3"}, {0, "c", true, refused, "4"}, {0, "c", true, nil, "5"}, {0, "c", true, refused, "5"}, {time.Minute, "a", true, nil, "6"},
		} {
			time.Sleep(c.after)
			if r := send(c.id, c.keyed, c.err); r.To != c.want {
				t.Errorf("%+v: %+v", c, r)
			}
		}
	})
}

// TestPanic: who waits for a form that panics gets an error, and the form can be sent again.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcome.Recent
		go func() {
			defer func() { recover() }()
			o.Once("a", true, func() outcome.Result { time.Sleep(time.Second); panic("broken") })
		}()
		synctest.Wait()
		if r := o.Once("a", true, func() outcome.Result { return outcome.Result{To: "again"} }); r.Err != problem.ErrPanic {
			t.Errorf("%+v", r)
		}
		if r := o.Once("a", true, func() outcome.Result { return outcome.Result{To: "again"} }); r.To != "again" {
			t.Errorf("%+v", r)
		}
	})
}

// TestKept: what a form has left is for the visitor who has sent it, for ten minutes, and of the
// last thousand forms.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outcome.Recent
		send := func(id string) {
			o.Once(id, true, func() outcome.Result { return outcome.Result{By: "ann", Kept: "report " + id} })
		}
		is := func(id, by string, want any) {
			t.Helper()
			if got := o.Kept(id, by); got != want {
				t.Errorf("%s for %s: %v", id, by, got)
			}
		}
		is("a", "ann", nil)
		send("a")
		is("a", "ann", "report a")
		is("a", "bob", nil)
		is("a", "", nil)
		time.Sleep(10 * time.Minute)
		send("b")
		is("a", "ann", "report a")
		time.Sleep(time.Second)
		send("c")
		is("a", "ann", nil)
		for i := range 1000 {
			send(fmt.Sprint(i))
		}
		is("b", "ann", nil)
		is("0", "ann", "report 0")
	})
}
