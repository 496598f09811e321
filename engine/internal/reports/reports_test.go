package reports_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/reports"
	"github.com/courierhq/courier/store"
)

func same(s string) string { return s }

// noLog is a log without lines, and oneLine one that has some.
type noLog struct{}

func (noLog) Recent(int) (string, int64) { return "", 0 }

type oneLine struct {
	text  string
	lines int64
}

func (l *oneLine) Recent(int) (string, int64) { return l.text, l.lines }

// TestLog: what an attempt logs is sent with the next renewal, once, without secrets, also if it
// reports nothing.
func TestLog(t *testing.T) {
	job := courier.NewContext(courier.ContextConfig{Step: 3, Attempt: 1})
	var r reports.Reports
	log, now := &oneLine{}, time.Now()
	sends := func() *store.Progress {
		var l store.Lease
		if sent := r.Add(&l, job, log, now, func(s string) string { return strings.ReplaceAll(s, "hunter", "[secret s]") }); sent != nil {
			sent()
		}
		return l.Progress
	}
	if p := sends(); p != nil {
		t.Errorf("of nothing: %+v", p)
	}
	log.text, log.lines = "the word is hunter\n", 1
	if p := sends(); p == nil || p.Report == nil || p.Report.Log != "the word is [secret s]\n" || p.Report.Total != -1 {
		t.Errorf("of a line: %+v", p)
	}
	if p := sends(); p != nil {
		t.Errorf("it is sent again: %+v", p)
	}
	now = now.Add(time.Minute)
	log.lines = 2
	if p := sends(); p == nil || p.Idle != time.Minute {
		t.Errorf("of the next line: %+v", p)
	}
	r.Report(courier.Progress{Item: "a", Done: 5}, now)
	if p := sends(); p == nil || p.Report.Item != "a" || p.Report.Log == "" || p.Idle != 0 {
		t.Errorf("of a report: %+v", p)
	}
}

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
	if sent := r.Add(&l, job, noLog{}, time.Now(), same); l.Progress != nil || sent != nil {
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
		if sent := r.Add(&l, job, noLog{}, now.Add(time.Minute), same); sent != nil && arrives {
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
