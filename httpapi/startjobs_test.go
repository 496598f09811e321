package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/webhook"
)

// What a request to start a job can say, and what GET shows of it.
func TestStartAndGet(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		w.define(courier.Job{Result: "version 2"})
		var got httpapi.Started
		w.post("v1/jobs/job/executions", `{"version": 1, "params": {"text": "https://example.com/video.mp4", "seconds": 60}, "priority": 5, "max_attempts": 3, "idempotency_key": "upload-123"}`).
			want(http.StatusAccepted, &got)
		if got.Status != "queued" {
			t.Errorf("%+v", got)
		}
		w.begin()
		x := w.see(string(got.ID))
		for name, want := range map[string]any{"job": "job", "version": 1.0, "status": "running", "attempt": 1.0, "max_retries": 2.0, "priority": 5.0, "started_at": "2000-01-01T00:00:00Z"} {
			if x[name] != want {
				t.Errorf("%s is %v, not %v", name, x[name], want)
			}
		}
		if x["worker"] == nil || x["heartbeat_at"] != "2000-01-01T00:00:00Z" || x["lease_expires_at"] == nil {
			t.Errorf("%v", x)
		}
	})
}

// TestEveryStatusIsReached: from queued to each end, lost included.
func TestEveryStatusIsReached(t *testing.T) {
	for _, c := range []struct{ name, body, ask, want string }{
		{"succeeded", `{}`, "", ">queued queued>running running>completed"},
		{"failed", `{"params": {"fail": "no"}}`, "", ">queued queued>running running>failed"},
		{"cancelled while queued", `{"delay_seconds": 60}`, "cancel", ">queued queued>cancelled"},
		{"cancelled while running", `{"params": {"seconds": 60}}`, "cancel", ">queued queued>running running>cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
				w.begin()
				id := w.start("job", c.body)
				synctest.Wait()
				if c.ask != "" {
					w.post("v1/executions/"+id+"/"+c.ask, "").want(http.StatusAccepted, nil)
				}
				w.ended(id)
				moves, _ := w.audit(id)
				moves = slices.DeleteFunc(moves, func(m string) bool { return strings.HasPrefix(m, "step ") })
				if got := strings.Join(moves, " "); got != c.want {
					t.Errorf("%s\nwant %s", got, c.want)
				}
			})
		})
	}
}

// The delay before a retry is random between half of the backoff and the whole.
func TestJitterOfRetries(t *testing.T) {
	base, most, times := 8*time.Second, 20*time.Second, 3
	jobWorld(t, engine.Options{}, courier.Job{Steps: flaky, FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: &times, BackoffBase: &base, BackoffMax: &most}}, func(w *world) {
		w.begin()
		delays := make(map[float64]bool)
		for range 5 {
			id := w.start("job", "")
			w.ended(id)
			moves, at := w.audit(id)
			n, failed := 0, 0.0
			for i, move := range moves {
				if move == "running>queued" {
					failed = at[i]
				}
				if move != "queued>running" || i < 2 {
					continue
				}
				d, whole := at[i]-failed, min(8*float64(int(1)<<n), 20)
				if d < whole/2 || d > whole {
					t.Errorf("retry %d after %v s", n, d)
				}
				delays[d] = true
				n++
			}
			if n != 3 {
				t.Errorf("%d retries", n)
			}
		}
		if len(delays) < 10 {
			t.Errorf("%d delays differ", len(delays))
		}
	})
}

// A key finds the execution of the same job, in flight or ended, and of no other job.
func TestKeyIsOfItsJob(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		if _, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "other", Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
			t.Fatal(err)
		}
		first := w.start("job", "", "Idempotency-Key", "k")
		if again := w.start("job", "", "Idempotency-Key", "k"); again != first {
			t.Errorf("in flight: %s and %s", first, again)
		}
		w.begin()
		w.ended(first)
		if again := w.start("job", "", "Idempotency-Key", "k"); again != first {
			t.Errorf("ended: %s and %s", first, again)
		}
		if other := w.start("other", "", "Idempotency-Key", "k"); other == first {
			t.Error("a key of one job has found an execution of another")
		}
	})
}

// GET /v1/jobs with filters, in pages.
func TestListByStatusAndJob(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		if _, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "other", Queue: "nobody's", Steps: []courier.StepSpec{{Type: "test.work"}}}, nil); err != nil {
			t.Fatal(err)
		}
		w.begin()
		ids := make(map[string]string) // names by id
		for name, c := range map[string][2]string{
			"succeeded": {"job", ""}, "failed": {"job", `{"params": {"fail": "no"}}`}, "running": {"job", `{"params": {"seconds": 900}}`}, "queued": {"other", ""},
			"cancelled": {"job", `{"hold": true}`},
		} {
			ids[w.start(c[0], c[1])] = name
		}
		for id, name := range ids {
			if name == "cancelled" {
				w.post("v1/executions/"+id+"/cancel", "").want(http.StatusAccepted, nil)
			}
		}
		time.Sleep(10 * time.Second)
		list := func(query string) (found []string, next string) {
			t.Helper()
			var page struct {
				Items []struct{ ID string }
				Next  string
			}
			w.get("v1/executions?"+query).want(http.StatusOK, &page)
			for _, x := range page.Items {
				found = append(found, ids[x.ID])
			}
			slices.Sort(found)
			return found, page.Next
		}
		for query, want := range map[string]string{
			"state=queued": "queued", "state=running": "running", "state=completed": "succeeded", "state=failed": "failed", "state=cancelled": "cancelled",
			"job=other": "queued", "job=job&state=failed,running": "failed running", "queue=nobody's": "queued", "by=admin&limit=1000": "cancelled failed queued running succeeded",
			"by=ann": "",
		} {
			if got, _ := list(query); strings.Join(got, " ") != want {
				t.Errorf("%s: %v, not %s", query, got, want)
			}
		}
		var all []string
		for cursor, pages := "", 0; pages == 0 || cursor != ""; pages++ {
			found, next := list("limit=2&cursor=" + cursor)
			all, cursor = append(all, found...), next
			if len(found) > 2 || pages > 5 {
				t.Fatalf("page %d: %v", pages, found)
			}
		}
		if len(all) != len(ids) {
			t.Errorf("%d on all pages", len(all))
		}
		w.get("v1/executions?status=queued").problem(http.StatusBadRequest, "invalid", "state")
	})
}

// Higher priorities are claimed first, and then who came first.
func TestPriorities(t *testing.T) {
	jobWorld(t, engine.Options{Slots: 1}, courier.Job{}, func(w *world) {
		var want [3]string
		for _, c := range []struct{ priority, place int }{{0, 1}, {-3, 2}, {5, 0}} {
			want[c.place] = w.start("job", fmt.Sprintf(`{"priority": %d, "params": {"seconds": 60}}`, c.priority))
		}
		w.begin()
		for i, id := range want {
			time.Sleep(10 * time.Second)
			w.is(id, "running")
			for _, later := range want[i+1:] {
				w.is(later, "queued")
			}
			w.ended(id)
		}
	})
}

// The cap of a definition holds across workers, and that of a worker for itself.
func TestLimitOfAJob(t *testing.T) {
	for _, c := range []struct {
		name    string
		slots   int
		job     courier.Job
		workers int
		running int
	}{
		{"per definition", 64, courier.Job{Limit: 2}, 2, 2},
		{"per worker", 2, courier.Job{}, 1, 2},
		{"per worker, of two", 2, courier.Job{}, 2, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobWorld(t, engine.Options{Slots: c.slots}, c.job, func(w *world) {
				w.begin()
				for range c.workers - 1 {
					var reg courier.Registry
					courier.RegisterFunc(&reg, "test.work", work, nil)
					e := engine.New(w.store, &reg, &engine.Options{Slots: c.slots, Workspace: w.TempDir()})
					if err := e.Start(w.Context()); err != nil {
						t.Fatal(err)
					}
					defer e.Stop(w.Context())
				}
				for range 5 {
					w.start("job", `{"params": {"seconds": 600}}`)
				}
				time.Sleep(10 * time.Second)
				w.counts(map[string]int{"running": c.running, "queued": 5 - c.running})
			})
		})
	}
}

// A cancel is told to the step; one that does not listen keeps the execution from ending no
// longer than the grace.
func TestCancelWaitsForTheStep(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		w.begin()
		id := w.start("job", `{"params": {"seconds": 600}}`)
		synctest.Wait()
		w.post("v1/executions/"+id+"/cancel", `{"reason": "wrong file"}`).want(http.StatusAccepted, nil)
		if x := w.ended(id); x.State != courier.Cancelled || x.EndedAt.Sub(x.CreatedAt) > time.Second {
			t.Errorf("%+v", x)
		}
	})
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.deaf", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
		time.Sleep(time.Minute)
		return struct{}{}, nil
	}, nil)
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, log: new(strings.Builder), user: "admin"}
		w.engine = engine.New(memstore.New(), &reg, &engine.Options{Workspace: t.TempDir(), Grace: 10 * time.Second})
		w.define(courier.Job{Steps: []courier.StepSpec{{Type: "test.deaf"}}})
		w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy()})
		w.begin()
		id := w.start("job", "")
		synctest.Wait()
		var x map[string]any
		w.post("v1/executions/"+id+"/cancel", "").want(http.StatusAccepted, &x)
		if x["status"] != "cancelling" || x["requested_at"] == nil || x["requested_by"] != "admin" {
			t.Errorf("%v", x)
		}
		if x := w.ended(id); x.State != courier.Cancelled || x.EndedAt.Sub(x.CreatedAt) != 10*time.Second {
			t.Errorf("%+v", x)
		}
		time.Sleep(time.Minute)
		if err := w.engine.Stop(w.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The changes of state of an execution and its steps come as they happen, and the end.
func TestEventsOfAnExecution(t *testing.T) {
	jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
		w.begin()
		id := w.start("job", `{"params": {"seconds": 3}}`)
		v := w.watch("v1/executions/" + id + "/events?after=0")
		v.over()
		want := []string{"1 >queued", "2 queued>running", "3 pending>running", "4 running>completed", "5 running>completed"}
		if got := moves(t, v.got()); !slices.Equal(got, want) || len(v.got("end")) != 1 {
			t.Errorf("%q", got)
		}
	})
}

// A schedule starts the job by cron, and catches up with what it has missed if it is to.
func TestSchedulesCatchUp(t *testing.T) {
	for misfire, missed := range map[schedule.Misfire]int{schedule.MisfireAll: 5, schedule.MisfireOnce: 1, schedule.MisfireSkip: 0} {
		t.Run(string(misfire), func(t *testing.T) {
			jobWorld(t, engine.Options{}, courier.Job{}, func(w *world) {
				_, err := w.engine.Schedules().Set(w.Context(), schedule.Schedule{
					Name: "hourly", Job: "job", Cron: "0 30 * * * ?", Zone: "Europe/Berlin", Misfire: misfire, Params: map[string]any{"text": "x"}, Priority: 3,
				}, courier.By{Actor: "admin"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Hour) // nobody is there
				w.begin()
				time.Sleep(10 * time.Minute)
				w.counts(map[string]int{"completed": missed})
				time.Sleep(2 * time.Hour)
				w.counts(map[string]int{"completed": missed + 2})
				list, err := w.engine.Executions().List(w.Context(), store.Filter{Limit: 1})
				if err != nil || list[0].Priority != 3 {
					t.Fatalf("%+v, %v", list, err)
				}
				if x := w.ended(string(list[0].ID)); !strings.Contains(string(x.Params), `"text":"x"`) {
					t.Errorf("%+v", x)
				}
			})
		})
	}
}

// The hooks of a definition are subscriptions: to the start, the success, the failure, and
// each end. Their requests are signed.
func TestSubscriptionsAreHooks(t *testing.T) {
	got := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = webhook.Verify(r.Header, body, hookSecret)
		}
		if err != nil {
			t.Error(err)
		}
		if webhook.Verify(r.Header, append(body, ' '), hookSecret) == nil {
			t.Error("the signature does not depend on the body")
		}
		got <- strings.TrimPrefix(r.URL.Path, "/")
	}))
	defer server.Close()
	var reg courier.Registry
	courier.RegisterFunc(&reg, "test.work", work, nil)
	w := &world{T: t, log: new(strings.Builder), user: "admin"}
	w.engine = engine.New(memstore.New(), &reg, &engine.Options{
		Workspace: t.TempDir(), Secrets: func(context.Context, courier.SecretRequest) (string, error) { return hookSecret, nil },
		Webhooks: notify.WebhookOptions{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, AllowPlain: true},
	})
	w.define(courier.Job{})
	w.api = httpapi.New(w.engine, &httpapi.Options{Access: policy()})
	for hook, events := range map[string][]courier.EventType{
		"onStart": {courier.EventJobStarted}, "onSuccess": {courier.EventJobCompleted}, "onFail": {courier.EventJobFailed},
		"onEnd": {courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobCancelled},
	} {
		_, err := w.engine.Subscriptions().Set(w.Context(), notify.Subscription{
			Name: hook, Kind: notify.KindWebhook, Jobs: []string{"job"}, Events: events,
			Webhook: &notify.WebhookTarget{URL: server.URL + "/" + hook, Secrets: []string{"secret:hook"}},
		}, courier.By{})
		if err != nil {
			t.Fatal(err)
		}
	}
	w.begin()
	defer w.engine.Stop(w.Context())
	w.ended(w.start("job", ""))
	w.ended(w.start("job", `{"params": {"fail": "no"}}`))
	w.post("v1/executions/"+w.start("job", `{"hold": true}`)+"/cancel", "").want(http.StatusAccepted, nil)
	calls := make(map[string]int)
	for range 7 {
		select {
		case hook := <-got:
			calls[hook]++
		case <-time.After(time.Minute):
			t.Fatalf("after a minute: %v", calls)
		}
	}
	if want := map[string]int{"onStart": 2, "onSuccess": 1, "onFail": 1, "onEnd": 3}; !maps.Equal(calls, want) {
		t.Errorf("%v, not %v", calls, want)
	}
}

// What a step logs is structured, has the id of the execution, and is read by it.
func TestLogOfSteps(t *testing.T) {
	var log strings.Builder
	jobWorld(t, engine.Options{Log: slog.New(slog.NewJSONHandler(&log, nil))}, courier.Job{}, func(w *world) {
		w.begin()
		id := w.start("job", `{"params": {"text": "hello"}}`)
		other := w.start("job", `{"params": {"text": "good-bye"}}`)
		w.ended(id)
		w.ended(other)
		synctest.Wait()
		for line := range strings.Lines(log.String()) {
			if strings.Contains(line, "hello") != strings.Contains(line, id) && strings.Contains(line, `"working"`) {
				t.Errorf("%s", line)
			}
		}
		if !strings.Contains(log.String(), `"execution":"`+id+`"`) {
			t.Errorf("%s", &log)
		}
		text := w.get("v1/executions/"+id+"/log").want(http.StatusOK, nil).Body.String()
		if !strings.Contains(text, "hello") || strings.Contains(text, "good-bye") {
			t.Errorf("%s", text)
		}
	})
}

// Parameters are checked by their declarations, with one problem for each.
func TestParamsAreValidated(t *testing.T) {
	virtual(t, nil, func(w *world) {
		_, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "transcode", Steps: []courier.StepSpec{{Type: "test.work"}}, Params: map[string]any{
			"url":    courier.Param{Type: "text", Required: true, Pattern: "https://.*"},
			"width":  courier.Param{Type: "integer", Min: 1, Max: 4096},
			"format": courier.Param{Type: "text", Enum: []any{"mp4", "webm"}},
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		at := "v1/jobs/transcode/executions"
		w.post(at, `{"params": {"url": "https://example.com/v", "width": 640, "format": "mp4"}}`).want(http.StatusAccepted, nil)
		for body, texts := range map[string][]string{
			`{}`: {"url"},
			`{"params": {"url": "http://x", "width": "wide", "format": "avi"}}`:  {"url", "width", "format"},
			`{"params": {"url": "https://x", "width": 0}}`:                       {"width"},
			`{"params": {"url": "https://x", "hight": 1}}`:                       {"hight"},
			`{"params": {"url": "https://x"}, "piority": 1}`:                     {"piority"},
			`{"params": {"url": "https://x"}, "priority": "high"}`:               {"priority"},
			`{"params": {"url": "https://x"}, "max_attempts": 0, "version": -1}`: {"max_attempts", "version"},
		} {
			w.post(at, body).problem(http.StatusBadRequest, "invalid", texts...)
		}
	})
}
