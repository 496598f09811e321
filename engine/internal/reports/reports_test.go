package reports_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/reports"
	"github.com/courierhq/courier/store"
)

func same(s string) string { return s }

// TestUnused checks that an attempt which reports nothing and saves no cursor costs nothing,
// and sends nothing.
func TestUnused(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Step: 3})
	var r reports.Reports
	var cursor json.RawMessage
	var kept *store.Progress
	if n := testing.AllocsPerRun(100, func() {
		r.Begin(nil)
		kept = reports.Kept(job, &cursor)
	}); n > 0 || kept != nil {
		t.Errorf("%v allocations, %v is kept", n, kept)
	}
	var l store.Lease
	if sent := r.Add(&l, job, time.Now(), same); l.Progress != nil || sent != nil {
		t.Errorf("a renewal sends %+v", l.Progress)
	}
}

// TestUnsent checks that a renewal sends what the store does not have.
func TestUnsent(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Step: 3, Attempt: 2, Cursor: json.RawMessage(`7`)})
	var r reports.Reports
	r.Begin(json.RawMessage(`7`))
	now := time.Now()
	sends := func(arrives bool) *store.Progress {
		var l store.Lease
		if sent := r.Add(&l, job, now.Add(time.Minute), same); sent != nil && arrives {
			sent()
		}
		return l.Progress
	}
	save := func(v any) {
		if err := job.SaveCursor(v); err != nil {
			t.Fatal(err)
		}
	}
	if p := sends(true); p != nil {
		t.Errorf("the cursor with which the attempt began is sent: %+v", p)
	}
	save(8)
	for range 2 { // it is sent until the store has it
		if p := sends(false); p == nil || p.Step != 3 || p.Attempt != 2 || string(p.Cursor) != "8" || p.Report != nil || p.Idle != 0 {
			t.Errorf("of a cursor %+v is sent", p)
		}
	}
	sends(true)
	r.Report(courier.Progress{Item: "a\x00", Done: 5}, now)
	if p := sends(true); p == nil || string(p.Cursor) != "8" || p.Report == nil || p.Report.Item != "a\uFFFD" || p.Report.Done != 5 || p.Idle != time.Minute {
		t.Errorf("of a report %+v is sent", p)
	}
	r.Report(courier.Progress{Item: "a\x00", Done: 5}, now)
	if p := sends(true); p != nil {
		t.Errorf("a report is sent again: %+v", p)
	}
	save(nil)
	if p := sends(true); p == nil || p.Cursor != nil || p.Report == nil {
		t.Errorf("of a removed cursor %+v is sent", p)
	}
	if p := sends(true); p != nil {
		t.Errorf("then %+v is sent", p)
	}
}
