package metrics_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/metrics"
)

// newRecorder returns a recorder with its registry, and what the registry logs.
func newRecorder() (*metrics.Recorder[*metrics.Registry], *bytes.Buffer) {
	log := new(bytes.Buffer)
	return &metrics.Recorder[*metrics.Registry]{Sink: metrics.NewRegistry(slog.New(slog.NewTextHandler(log, nil)))}, log
}

func text(r *metrics.Recorder[*metrics.Registry], figures ...metrics.Figure) string {
	return string(metrics.AppendText(nil, r.Sink, figures))
}

// TestDeclarations: each metric is declared as tools expect it, and has the name and labels that
// are documented nowhere else.
func TestDeclarations(t *testing.T) {
	name := regexp.MustCompile(`^[a-z]+(\.[a-z_]+)+$`)
	seen := make(map[string]bool)
	for _, m := range metrics.All {
		if !name.MatchString(m.Name) || seen[m.PromName()] || !strings.HasSuffix(m.Help, ".") || len(m.Labels) > metrics.MaxLabels || (m.Kind == metrics.Histogram) != (len(m.Buckets) > 0) {
			t.Errorf("%+v", m)
		}
		seen[m.PromName()] = true
		for i, l := range m.Labels {
			if !name.MatchString(l.Name) {
				t.Errorf("%s has the label %q", m.Name, l.Name)
			}
			if i > 0 && l.Open && !m.Labels[i-1].Open {
				t.Errorf("%s: the label %s comes after one with few values", m.Name, l.Name)
			}
		}
		if metrics.ByName(m.Name) != m {
			t.Errorf("%s is not found", m.Name)
		}
	}
}

// TestText: labels, help and histograms are written as the format has them.
func TestText(t *testing.T) {
	r, _ := newRecorder()
	odd := "a\"b\\c\nd\xff"
	r.Began(&courier.Execution{Job: odd, Queue: odd}, 2*time.Second)
	r.Began(&courier.Execution{Job: odd, Queue: odd}, time.Minute)
	r.Began(&courier.Execution{Job: odd}, -1)
	r.Step(&courier.StepExecution{Type: "demo.a", State: courier.StepFailed, Reason: courier.ReasonStalled, Bytes: 1 << 40, Attempt: 2}, 10*time.Hour)
	r.Ended(&courier.Execution{Job: "j", State: courier.Failed, Failure: &courier.Failure{Reason: courier.ReasonLogin}}, time.Second)
	r.Ended(&courier.Execution{Job: "j", State: courier.Running}, time.Second)
	r.Ended(&courier.Execution{Job: "j", State: courier.Queued}, time.Second)
	r.Store("Apply", time.Millisecond, courier.ErrConflict)
	r.Store("Apply", time.Millisecond, fmt.Errorf("no connection"))
	r.Store("Await", time.Hour, nil)
	got := text(r, metrics.Figure{Metric: metrics.QueueDepth, Labels: metrics.Values{odd}, Value: 7}, metrics.Figure{Metric: metrics.QueueOldest, Value: .25})
	for _, want := range []string{
		"# HELP courier_queue_wait_seconds How long executions had been due when they were claimed.\n# TYPE courier_queue_wait_seconds histogram\n",
		`courier_queue_wait_seconds_bucket{courier_queue="a\"b\\c\nd` + "\uFFFD" + `",le="1"} 0` + "\n",
		`",le="5"} 1` + "\n", `",le="60"} 2` + "\n", `",le="+Inf"} 2` + "\n", `_sum{courier_queue="a\"b\\c\nd` + "\uFFFD" + `"} 62` + "\n",
		"\ncourier_takeovers_total 1\n",
		`courier_step_duration_seconds_bucket{courier_step_type="demo.a",cicd_pipeline_task_run_result="timeout",le="3600"} 0` + "\n",
		`courier_step_errors_total{courier_step_type="demo.a",error_type="stalled"} 1` + "\n",
		`courier_transfer_io_bytes_total{courier_step_type="demo.a"} 1.099511627776e+12` + "\n",
		`courier_retries_total{courier_step_type="demo.a"} 1` + "\n",
		`cicd_pipeline_run_errors_total{cicd_pipeline_name="j",error_type="login"} 1` + "\n",
		`courier_slices_total{cicd_pipeline_name="j",courier_slice_end="lease_lost"} 1` + "\n",
		`courier_slices_total{cicd_pipeline_name="j",courier_slice_end="handed_over"} 1` + "\n",
		`cicd_system_errors_total{cicd_system_component="store",error_type="Apply"} 1` + "\n",
		`courier_store_duration_seconds_count{courier_store_call="Apply"} 2` + "\n",
		"courier_queue_oldest_seconds 0.25\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nis missing in\n%s", want, got)
		}
	}
	if strings.Contains(got, "Await") {
		t.Error("calls that wait are recorded")
	}
	// A scrape while others record is consistent.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2000 {
				r.Claimed(i%7, 0)
			}
		})
	}
	for range 20 {
		got := text(r)
		inf, count := regexp.MustCompile(`claim_size_bucket\{le="\+Inf"\} (\d+)`).FindStringSubmatch(got), regexp.MustCompile(`claim_size_count (\d+)`).FindStringSubmatch(got)
		if inf != nil && inf[1] != count[1] {
			t.Errorf("%s in all buckets, %s in all", inf[1], count[1])
		}
	}
	all.Wait()
	if got := text(r); !strings.Contains(got, "courier_claim_size_count 8000\n") {
		t.Error("claims were missed")
	}
}

// TestBounded records 10,000 names of jobs and step types: no metric has more series than it
// may, the counts of all of them are there, and the log says so once.
func TestBounded(t *testing.T) {
	r, log := newRecorder()
	states := []courier.State{courier.Completed, courier.Failed, courier.Cancelled, courier.Queued, courier.Running}
	for i := range 10_000 {
		name := fmt.Sprint("job", i)
		x := courier.Execution{Job: name, Queue: name, State: states[i%len(states)]}
		if x.State == courier.Failed {
			x.Failure = &courier.Failure{Reason: courier.ReasonError}
		}
		r.Began(&x, time.Duration(i%2)*2-1)
		r.Step(&courier.StepExecution{Type: name, State: courier.StepFailed, Reason: courier.ReasonError, Attempt: 2, Bytes: 1}, 0)
		r.Ended(&x, 0)
		r.Store(name, 0, nil)
	}
	got := text(r)
	lines := make(map[string]int)
	for line := range strings.Lines(got) {
		name, _, _ := strings.Cut(line, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if line[0] != '#' {
			lines[name]++
		}
	}
	for name, n := range lines {
		if n > metrics.MaxSeries {
			t.Errorf("%s has %d series", name, n)
		}
	}
	if lines["courier_slices_total"] < 1500 || lines["cicd_pipeline_run_duration_seconds"] < 1500 {
		t.Errorf("%d and %d series", lines["courier_slices_total"], lines["cicd_pipeline_run_duration_seconds"])
	}
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^courier_slices_total\{.*\} (\d+)$`).FindAllStringSubmatch(got, -1) {
		n := 0
		fmt.Sscan(m[1], &n)
		sum += n
	}
	if sum != 10_000 || !strings.Contains(got, `courier_slices_total{cicd_pipeline_name="other",courier_slice_end="failed"}`) {
		t.Errorf("%d slices", sum)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "too many series") {
		t.Errorf("the log has %d lines: %s", n, log)
	}
}

// TestPromtool has promtool check the text of all metrics.
func TestPromtool(t *testing.T) {
	r, _ := newRecorder()
	var figures []metrics.Figure
	for _, m := range metrics.All {
		var v metrics.Values
		for i := range m.Labels {
			v[i] = "a\"\\\nb"
		}
		if m.Kind != metrics.Gauge && m != metrics.EventsDropped {
			r.Sink.Record(m, 1.5, v)
		} else {
			figures = append(figures, metrics.Figure{Metric: m, Labels: v, Value: 1.5})
		}
	}
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(text(r, figures...))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// BenchmarkRecorder is what it costs to record a step, and a call of the store: that of a store
// in the process is measured once in 16 steps, and that of another one each time.
func BenchmarkRecorder(b *testing.B) {
	s := courier.StepExecution{Type: "sftp.download", State: courier.StepCompleted, Attempt: 1}
	b.Run("step", func(b *testing.B) {
		r, _ := newRecorder()
		b.ReportAllocs()
		for b.Loop() {
			r.Step(&s, time.Millisecond)
		}
	})
	b.Run("store", func(b *testing.B) {
		r, _ := newRecorder()
		b.ReportAllocs()
		for b.Loop() {
			sent := time.Now()
			r.Store("Apply", time.Since(sent), nil)
		}
	})
}

// BenchmarkText is what a scrape costs besides the figures of the store, with 100 jobs.
func BenchmarkText(b *testing.B) {
	r, _ := newRecorder()
	for i := range 100 {
		x := courier.Execution{Job: fmt.Sprint("job", i), Queue: "default", State: courier.Completed}
		r.Began(&x, time.Second)
		r.Step(&courier.StepExecution{Type: fmt.Sprint("type", i), State: courier.StepCompleted}, time.Second)
		r.Ended(&x, time.Second)
	}
	b.ReportAllocs()
	for b.Loop() {
		_ = metrics.AppendText(nil, r.Sink, nil)
	}
}
