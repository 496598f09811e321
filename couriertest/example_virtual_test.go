package couriertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// send is a job that is tried again after half an hour to an hour.
const send = `{"name": "send", "steps": [{"type": "demo.send"}],
	"failure_policy": {"type": "retry_step", "backoff_base_seconds": 3600, "backoff_max_seconds": 3600}}`

// In a program this is func TestRetry.
func testRetry(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		h.Stub("demo.send", couriertest.Fails(errors.New("connection refused"), nil))
		begin := time.Now()
		h.Run(h.Job(send), nil).
			RequireState(courier.Completed).
			RequireTrace("0 demo.send failed", "0 demo.send#2 completed")
		if time.Since(begin) < time.Hour/2 {
			t.Error("there was no backoff")
		}
	})
}

// In virtual time a backoff of an hour takes none.
func ExampleVirtual() { _ = testRetry }
