package memstore_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// TestAdvance: who advances the clock makes things due, and wakes who waits.
func TestAdvance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Date(2027, 3, 24, 0, 0, 0, 0, time.UTC)
		s := memstore.NewAt(start)
		if time.Sleep(time.Minute); !s.Now().Equal(start.Add(time.Minute)) {
			t.Errorf("after a minute it is %v", s.Now())
		}
		put, err := s.PutSchedule(t.Context(), schedule.Record{
			Name: "s", Kind: store.Job, Target: "job", Body: json.RawMessage(`{}`),
			Status: schedule.Status{Due: start.Add(24 * time.Hour), Next: start.Add(24 * time.Hour)},
		})
		if err != nil || !put.SavedAt.Equal(s.Now()) {
			t.Fatalf("saved at %v: %v", put.SavedAt, err)
		}
		dues, err := s.DueSchedules(t.Context(), 1, time.Second)
		if err != nil || len(dues.List) > 0 || dues.Next != 24*time.Hour-time.Minute {
			t.Errorf("before: %+v, %v", dues, err)
		}
		claims, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", Workspace: "w", Queues: []string{"q"}, Max: 1, Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		woken := make(chan error, 2)
		go func() { woken <- s.AwaitSchedules(t.Context(), dues.Mark) }()
		go func() { woken <- s.Await(t.Context(), []string{"q"}, claims.Mark) }()
		synctest.Wait()
		before := s.Now()
		if s.Advance(-time.Hour); len(woken) > 0 || !s.Now().Equal(before) {
			t.Errorf("a clock that is put back wakes %d; it is %v", len(woken), s.Now())
		}
		s.Advance(24 * time.Hour)
		for range 2 {
			if err := <-woken; err != nil {
				t.Error(err)
			}
		}
		if dues, err = s.DueSchedules(t.Context(), 1, time.Second); err != nil || len(dues.List) != 1 || !dues.Now.Equal(before.Add(24*time.Hour)) {
			t.Errorf("after: %+v, %v", dues, err)
		}
	})
}
