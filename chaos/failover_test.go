package chaos

import (
	"testing"
	"time"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// The server is lost under load, and its standby takes its place. Workers find
// it by the addresses of both. Commits wait for the standby, so nothing that was
// acknowledged is lost.
func TestFailover(t *testing.T) {
	t.Parallel()
	rounds(t, 1, 1, func(t *testing.T, _ int) {
		primary := pgtest.Start(t, nil)
		standby := primary.Standby(t)
		primary.Reload(t, map[string]string{"synchronous_standby_names": "*"})
		w := newWorld(t, pgtest.FailoverURL("", primary, standby), nil)
		w.forgetful = true
		begun := time.Now()
		for range 3 {
			w.spawn(ordinary)
		}
		stop := w.load(20)
		time.Sleep(2 * time.Second)
		primary.Kill(t)
		standby.Promote(t)
		time.Sleep(2 * time.Second)
		stop()
		w.settle()
		r, _ := w.check()
		t.Logf("failover in a run of %v: %v", time.Since(begun).Round(time.Millisecond), r)
	})
}
