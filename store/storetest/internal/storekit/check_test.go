package storekit

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// history is a correct audit with a bit of everything.
func history() []courier.AuditEntry {
	zero := 0
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var list []courier.AuditEntry
	add := func(step *int, from, to string, elapsed time.Duration, reason courier.Reason) {
		at = at.Add(time.Second)
		e := courier.AuditEntry{Execution: "x", Seq: int64(len(list) + 1), At: at, From: from, To: to, Elapsed: elapsed * time.Second, Reason: reason}
		if e.Step = step; step != nil {
			e.Attempt = 1
		}
		list = append(list, e)
	}
	add(nil, "", "queued", 0, "")
	add(nil, "queued", "running", 1, "")
	add(&zero, "pending", "running", 0, "")
	add(nil, "running", "queued", 2, courier.ReasonWorkerLost)
	add(nil, "queued", "running", 1, "")
	add(&zero, "running", "pending", 3, "")
	add(&zero, "pending", "running", 0, "")
	add(&zero, "running", "completed", 1, "")
	add(nil, "running", "completed", 4, "")
	return list
}

// repaired is a correct audit of an execution whose step an operator skipped.
func repaired() []courier.AuditEntry {
	list := history()[:2]
	one, at := 1, list[1].At.Add(time.Second)
	return append(list,
		courier.AuditEntry{Execution: "x", Seq: 3, At: at, From: "running", To: "failed", Elapsed: time.Second},
		courier.AuditEntry{Execution: "x", Seq: 4, At: at.Add(time.Second), Step: &one, Attempt: 1, From: "pending", To: "skipped"},
		courier.AuditEntry{Execution: "x", Seq: 5, At: at.Add(time.Second), From: "failed", To: "queued", Elapsed: time.Second},
	)
}

func TestCheckAuditOfASkippedStep(t *testing.T) {
	if err := CheckAudit(repaired()); err != nil {
		t.Errorf("a correct audit: %v", err)
	}
	for _, c := range []struct {
		want   string
		change func(list []courier.AuditEntry) []courier.AuditEntry
	}{
		{"no resume follows", func(l []courier.AuditEntry) []courier.AuditEntry { return l[:4] }},
		{"is not the resume", func(l []courier.AuditEntry) []courier.AuditEntry { l[4].To = "cancelled"; return l }},
		{"is not the resume", func(l []courier.AuditEntry) []courier.AuditEntry { l[4].At = l[4].At.Add(time.Second); return l }},
		{"changes while the execution is failed", func(l []courier.AuditEntry) []courier.AuditEntry { l[3].To = "completed"; return l }},
	} {
		err := CheckAudit(c.change(repaired()))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}

func TestCheckAudit(t *testing.T) {
	if err := CheckAudit(history()); err != nil {
		t.Errorf("a correct audit: %v", err)
	}
	if err := CheckAudit(nil); err != nil {
		t.Errorf("no audit: %v", err)
	}
	for _, c := range []struct {
		want   string
		change func(list []courier.AuditEntry) []courier.AuditEntry
	}{
		{"its number is 2", func(l []courier.AuditEntry) []courier.AuditEntry { return l[1:] }},
		{"its number is 4", func(l []courier.AuditEntry) []courier.AuditEntry { return append(l[:2], l[3:]...) }},
		{"its number is 1", func(l []courier.AuditEntry) []courier.AuditEntry { return append(l[:1], l...) }},
		{"the entry before is of y", func(l []courier.AuditEntry) []courier.AuditEntry { l[0].Execution = "y"; return l }},
		{"after one at", func(l []courier.AuditEntry) []courier.AuditEntry { l[1].At = l[0].At.Add(-1000); return l }},
		{"not in UTC", func(l []courier.AuditEntry) []courier.AuditEntry {
			l[1].At = l[1].At.In(time.FixedZone("", 3600))
			return l
		}},
		{"not cut", func(l []courier.AuditEntry) []courier.AuditEntry { l[1].At = l[1].At.Add(1); return l }},
		{`the state left before is "queued"`, func(l []courier.AuditEntry) []courier.AuditEntry { l[1].From = "paused"; return l }},
		{"not legal", func(l []courier.AuditEntry) []courier.AuditEntry { l[1].To = "created"; return l }},
		{"not legal", func(l []courier.AuditEntry) []courier.AuditEntry { l[2].To = "completed"; return l }},
		{"elapsed 9s", func(l []courier.AuditEntry) []courier.AuditEntry { l[4].Elapsed = 9 * time.Second; return l }},
		{"elapsed 0s", func(l []courier.AuditEntry) []courier.AuditEntry { l[5].Elapsed = 0; return l }},
		{"is left running", func(l []courier.AuditEntry) []courier.AuditEntry { l[3].Reason = ""; return l }},
		{"changes while the execution is queued", func(l []courier.AuditEntry) []courier.AuditEntry {
			l[1] = l[2]
			l[1].Seq = 2
			return l[:2]
		}},
	} {
		err := CheckAudit(c.change(history()))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
}
