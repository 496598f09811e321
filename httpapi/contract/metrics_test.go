package contract

import (
	"bytes"
	"context"
	"errors"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// TestMetrics has Prometheus' own parser and promtool read GET metrics, with names of jobs and
// queues that have to be escaped.
func TestMetrics(t *testing.T) {
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", func(_ context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		if job.Attempt() == 1 {
			return struct{}{}, errors.New("not yet")
		}
		return struct{}{}, nil
	}, nil)
	const queue, token = `"night" \shift`, "a token for scrapers"
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir(), Queues: []string{queue}})
	job := courier.Job{Name: "nächtlich, \"{}", Queue: queue, FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}, Steps: []courier.StepSpec{{Type: "test.work"}}}
	if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
		t.Fatal(err)
	}
	api := httpapi.New(e, &httpapi.Options{Access: access.Policy{Metrics: token}})
	defer api.Close()
	scrape := func() string {
		r := httptest.NewRequest("GET", "/metrics", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		format := expfmt.ResponseFormat(w.Header())
		if w.Code != 200 || format.FormatType() != expfmt.TypeTextPlain {
			t.Fatalf("%d %q %s", w.Code, format, w.Body)
		}
		return w.Body.String()
	}
	families := func(text string) map[string]int {
		parser := expfmt.NewTextParser(model.LegacyValidation)
		got, err := parser.TextToMetricFamilies(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		list := make(map[string]int)
		for name, f := range got {
			list[name] = len(f.GetMetric())
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "courier_queue" && l.GetValue() != queue {
						t.Errorf("%s has the queue %q", name, l.GetValue())
					}
				}
			}
		}
		return list
	}
	if got := families(scrape()); got["courier_queue_depth"] != 1 || got["courier_slices_total"] != 0 || got["courier_workspace_free_bytes"] != 0 {
		t.Errorf("an engine that is not started has %v", got)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	x, err := e.Enqueue(t.Context(), job.Name, nil)
	if err == nil {
		x, err = e.Wait(t.Context(), x.ID)
	}
	if err != nil || x.State != courier.Completed {
		t.Fatal(x.State, err)
	}
	if err := e.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	text := scrape()
	for _, name := range []string{"cicd_pipeline_run_duration_seconds", "courier_slices_total", "courier_step_duration_seconds", "courier_retries_total", "courier_queue_wait_seconds", "courier_store_duration_seconds", "courier_queue_depth"} {
		if families(text)[name] == 0 {
			t.Errorf("%s is missing in\n%s", name, text)
		}
	}
	cmd := exec.Command("promtool", "check", "metrics")
	cmd.Stdin = bytes.NewReader([]byte(text))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
