package dashboard_test

import (
	"testing"
	"time"

	"github.com/courierhq/courier/schedule"
)

// Pages that say when a schedule fires next count its jitter. The tick itself may have passed.
func TestJitter(t *testing.T) {
	virtual(t, options(), func(w *world) {
		w.schedule(schedule.Schedule{Name: "spread", Job: "report", Every: time.Hour, Jitter: 50 * time.Minute})
		tick := time.Now().Truncate(time.Hour).Add(time.Hour)
		at := schedule.TickAt("spread", tick, 50*time.Minute).UTC().Format("2006-01-02 15:04:05 UTC")
		w.get("").has("The next tick: spread , " + at).has("Next schedule spread fires " + at)
		for _, page := range []string{"jobs", "jobs/report", "schedules?tab=list", "schedules/spread"} {
			w.get(page).has(at)
		}
	})
}
