package engine_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// TestExpires enqueues for a queue that no worker serves. The execution fails when its
// time is over, and can be resumed; one that was begun in time does not expire.
func TestExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := couriertest.New(t, nil)
		h.Stub("demo.a", nil)
		h.Start()
		var heard eventbook
		defer h.Engine.Observe(heard.hear)()
		for queue := range map[string]bool{"": true, "nobody": true} {
			job := courier.Job{Name: "job" + queue, Queue: queue, Steps: []courier.StepSpec{{Type: "demo.a"}}}
			if _, err := h.Engine.Jobs().Define(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		served, err1 := h.Engine.Enqueue(t.Context(), "job", &courier.EnqueueOptions{Expires: time.Hour})
		x, err2 := h.Engine.Enqueue(t.Context(), "jobnobody", &courier.EnqueueOptions{Expires: time.Hour})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		x, err := h.Engine.Wait(t.Context(), x.ID)
		if took := time.Since(began); err != nil || x.State != courier.Failed || took < time.Hour || took > time.Hour+2*time.Second {
			t.Fatalf("%s after %v, %v", x.State, took, err)
		}
		if f := x.Failure; f == nil || f.Reason != courier.ReasonExpired || !strings.Contains(f.Message, "had not begun by 2000-01-01T01:00:00Z") {
			t.Errorf("the failure is %+v", f)
		}
		if got := heard.take("JobFailed"); len(got) != 1 {
			t.Errorf("observers were told %q", got)
		}
		if served, err = h.Engine.Wait(t.Context(), served.ID); err != nil || served.State != courier.Completed {
			t.Errorf("in time: %s, %v", served.State, err)
		}
		if x, err = h.Engine.Resume(t.Context(), x.ID, nil); err != nil || x.State != courier.Queued || x.Failure != nil {
			t.Errorf("resumed: %s, %v, %v", x.State, x.Failure, err)
		}
		for _, opt := range []*courier.EnqueueOptions{{Expires: -1}, {Expires: time.Minute, Delay: time.Hour}} {
			if _, err := h.Engine.Enqueue(t.Context(), "job", opt); !errors.Is(err, courier.ErrInvalid) || !strings.Contains(err.Error(), "expires") {
				t.Errorf("%+v: %v", opt, err)
			}
		}
	})
}
