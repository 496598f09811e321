package pgstore_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/courierhq/courier/store/pgstore"
)

func TestHealthJSON(t *testing.T) {
	h := pgstore.Health{
		Schema: 7, Running: 1, OldestLease: &pgstore.HeldLease{Execution: "x", Worker: "w", Remaining: 1500 * time.Millisecond},
		OldestDue: &pgstore.Waiting{Execution: "y", Queue: "q", Age: time.Minute}, Pool: pgstore.PoolUse{Max: 4, WaitTime: time.Second},
		XminHolder: &pgstore.XminHolder{Kind: "session", PID: 5, Age: time.Hour},
	}
	got, err := json.Marshal(h)
	const want = `{"server":"","schema":7,"running":1,"oldest_lease":{"execution_id":"x","worker":"w","remaining_seconds":1.5},` +
		`"queued":0,"oldest_due":{"execution_id":"y","queue":"q","age_seconds":60},"notified":false,` +
		`"pool":{"max":4,"open":0,"in_use":0,"waited":0,"wait_seconds":1},"tables":null,` +
		`"xmin_holder":{"kind":"session","pid":5,"transactions":0,"age_seconds":3600}}`
	if err != nil || string(got) != want {
		t.Errorf("%s (%v), want\n%s", got, err, want)
	}
}
