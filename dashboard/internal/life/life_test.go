package life_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/life"
	"github.com/courierhq/courier/store"
)

// TestStrip: a day is compared with the same weekday before until the end of the same hour. What was
// not counted is neither drawn nor compared.
func TestStrip(t *testing.T) {
	at := time.Date(2026, 11, 29, 6, 30, 0, 0, time.UTC)
	var hours []store.HourFigures
	for h := at.Truncate(time.Hour).Add(-(life.Hours - 1) * time.Hour); !h.After(at); h = h.Add(time.Hour) {
		hours = append(hours, store.HourFigures{Hour: h, CountedAt: h.Add(time.Minute), Completed: 1000, BytesIn: 2_000_000, Running: int64(h.Hour())})
	}
	hours[len(hours)-1].Failed = 7
	s := life.StripOf(at, hours)
	f := s.Figures[0]
	if f.Name != "Completed" || f.Today != "7,000" || f.Before != "7,000" || s.Weekday != "Sunday" || !s.Counted.Equal(hours[len(hours)-1].CountedAt) {
		t.Errorf("%+v of %+v", f, s.Weekday)
	}
	if b := s.Figures[3]; b.Name != "Bytes in" || !strings.Contains(string(b.Today), "14.0 MB") {
		t.Errorf("%+v", b)
	}
	if m := s.Figures[8]; m.Name != "Peak running" || m.Today != "6" || m.Before != "6" || s.Figures[9].Name != "Peak queued" {
		t.Errorf("%+v", m)
	}
	if len(s.Rows) != 24 || s.Rows[0].Cells[1] != "7" || s.Rows[1].Cells[1] != "0" || len(s.Rows[0].Cells) != len(s.Figures) {
		t.Errorf("%d rows: %+v", len(s.Rows), s.Rows[0])
	}
	if n := strings.Count(string(f.Spark), "M"); n != 24 {
		t.Errorf("%d bars: %s", n, f.Spark)
	}
	s = life.StripOf(at, hours[len(hours)-3:])
	if f := s.Figures[0]; f.Before != "" || f.Today != "3,000" || strings.Count(string(f.Spark), "M") != 3 || len(s.Rows) != 3 {
		t.Errorf("of three hours: %+v", f)
	}
	if s := life.StripOf(at, nil); !s.Counted.IsZero() || len(s.Rows) != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

// TestRuns: a bar for each run, the newest last, by its outcome; the times are those of completed
// ones.
func TestRuns(t *testing.T) {
	at := time.Date(2026, 11, 29, 6, 30, 0, 0, time.UTC)
	var list []courier.Execution
	for i := range 20 {
		list = append(list, courier.Execution{
			ID: courier.ExecutionID(fmt.Sprint(i)), State: courier.Completed, CreatedAt: at.Add(-time.Hour), StartedAt: at.Add(-time.Hour), EndedAt: at.Add(-time.Hour + time.Duration(i+1)*time.Second),
		})
	}
	list = append(list,
		courier.Execution{ID: "failed", State: courier.Failed, StartedAt: at.Add(-2 * time.Hour), EndedAt: at.Add(-time.Hour)},
		courier.Execution{ID: `"><b>`, State: courier.Queued, CreatedAt: at},
	)
	r := life.RunsOf(list, at, func(id courier.ExecutionID) string { return "executions/" + string(id) })
	if r.Count != 22 || r.Completed != 20 || r.Median != 10*time.Second || r.P95 != 19*time.Second {
		t.Errorf("%d of %d, median %v, p95 %v", r.Completed, r.Count, r.Median, r.P95)
	}
	text := string(r.Bars)
	if strings.Count(text, "<rect") != 22 || strings.Count(text, `"good"`) != 20 || strings.Count(text, `"bad"`) != 1 || strings.Contains(text, "<b>") || !strings.Contains(text, "not started") {
		t.Errorf("%s", text)
	}
	if strings.Index(text, "executions/0\"") < strings.Index(text, "executions/failed") {
		t.Error("the newest is not the last")
	}
	if r.Noun != "run" || !strings.Contains(text, "last 22 runs lasted") {
		t.Errorf("they are called %s: %s", r.Noun, text)
	}
	if r := life.RunsOf(nil, at, nil); r.Count != 0 || r.Median != 0 {
		t.Errorf("of nothing: %+v", r)
	}
}

// TestTransfers: a bar for each attempt, the newest last, with what it has moved or why it has failed.
func TestTransfers(t *testing.T) {
	at := time.Date(2026, 11, 29, 6, 30, 0, 0, time.UTC)
	attempt := func(state courier.StepState, took time.Duration) courier.StepExecution {
		return courier.StepExecution{Execution: "x", Step: 2, ID: "get", Type: "sftp.download", State: state, StartedAt: at, EndedAt: at.Add(took)}
	}
	done, failed, cut := attempt(courier.StepCompleted, 3*time.Second), attempt(courier.StepFailed, time.Second), attempt(courier.StepPending, 0)
	done.Bytes, done.Iteration, failed.Error = 1234, []int{4}, "login refused: <b>"
	r := life.TransfersOf([]store.Transfer{{Attempt: done, Files: 2}, {Attempt: failed}, {Attempt: cut}}, func(x *store.Transfer) life.Shown {
		return life.Shown{Href: "a?b&c", Job: "fetch", Message: x.Attempt.Error}
	})
	if r.Count != 3 || r.Completed != 1 || r.Median != 3*time.Second || r.P95 != 3*time.Second || r.Noun != "transfer" {
		t.Errorf("%+v", r)
	}
	text, last := string(r.Bars), 0
	for _, want := range []string{
		`href="a?b&amp;c"`, "<title>interrupted: ", `<title>failed: 1.0 s, 2026-11-29 06:30:00 UTC, job &#34;fetch&#34;, step 2 &#34;get&#34; (sftp.download): login refused: &lt;b&gt;</title><rect class="bad"`,
		`<title>completed: 3.0 s, 2 files, 1,234 bytes, 2026-11-29 06:30:00 UTC, job &#34;fetch&#34;, step 2 &#34;get&#34; (sftp.download) at index 4</title><rect class="good"`,
	} {
		i := strings.Index(text[last:], want)
		if i < 0 {
			t.Fatalf("no %s behind character %d of %s", want, last, text)
		}
		last += i
	}
}
