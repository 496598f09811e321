package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// A viewer sees the entries of the audit, the states and the end; a client sees the states of
// its own and the end, and who has the end is told that there is no more.
func TestStreamOfAnExecution(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.as("ann").start("report", `{"params": {"seconds": 5, "text": "`+canaryParam+`"}}`)
		path := "v1/executions/" + id + "/events"
		all, from, client := w.watch(path+"?after=0"), w.watch(path), w.as("ann").watch(path)
		foreign := w.as("ben").watch(path)
		foreign.over()
		if foreign.status != http.StatusNotFound {
			t.Errorf("a client sees the stream of another: %d", foreign.status)
		}
		for _, v := range []*viewer{all, from, client} {
			v.over()
		}
		var audit []string
		for _, e := range w.entries(id) {
			audit = append(audit, fmt.Sprintf("%d %s>%s", e.Seq, e.From, e.To))
		}
		if got := moves(t, all.got()); !slices.Equal(got, audit) {
			t.Errorf("audit %q, and the stream has %q", audit, got)
		}
		if got := states(t, from.got()); got[len(got)-1] != "completed" || slices.Contains(got[:len(got)-1], "completed") {
			t.Errorf("states %q", got)
		}
		end := from.got("end")
		last := audit[len(audit)-1]
		if n, _, _ := strings.Cut(last, " "); len(end) != 1 || end[0].id != n+".end" || end[0].data != `{"status":"completed"}` {
			t.Errorf("the end is %v", end)
		}
		if h := from.header; h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" || h.Get("Cache-Control") != "no-store" || !strings.HasPrefix(from.body(), "retry: ") {
			t.Errorf("%v %q", h, from.body())
		}
		for _, e := range client.got() {
			if e.name != "state" && e.name != "end" || strings.Contains(e.data, "seq") || strings.Contains(e.data, "position") {
				t.Errorf("a client is told %v", e)
			}
		}
		for _, v := range []*viewer{all, from, client} {
			if strings.Contains(v.body(), canaryParam) {
				t.Errorf("the stream has a parameter: %s", v.body())
			}
			e := v.got("end")
			v = w.as(map[bool]string{true: "ann", false: "admin"}[v == client]).watch(path, "Last-Event-ID", e[0].id)
			if v.over(); v.status != http.StatusNoContent {
				t.Errorf("who has the end is answered with %d", v.status)
			}
		}
	})
}

// entries returns the audit of an execution.
func (w *world) entries(id string) []courier.AuditEntry {
	w.Helper()
	list, err := w.engine.Executions().Audit(w.Context(), courier.ExecutionID(id))
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// A client that was cut off after any event, and connects again, also to another process, is
// sent what it lacks: no entry of the audit is missing, and none comes twice.
func TestStreamLosesNothing(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"params": {"seconds": 1, "fail": "no"}}`)
		w.ended(id)
		path := "v1/executions/" + id + "/events"
		whole := w.watch(path + "?after=0")
		whole.over()
		want := moves(t, whole.got())
		for cut := range whole.got() {
			had := whole.got()[:cut+1]
			other := *w
			other.api = httpapi.New(w.engine, &httpapi.Options{Access: policy()})
			last := had[cut].id
			for i := cut; last == ""; i-- {
				last = had[i].id
			}
			rest := other.watch(path, "Last-Event-ID", last)
			rest.over()
			if got := moves(t, append(had, rest.got()...)); !slices.Equal(got, want) {
				t.Errorf("after %v: %q, want %q", had[cut], got, want)
			}
			if strings.HasSuffix(last, ".end") != (rest.status == http.StatusNoContent) || rest.status != http.StatusNoContent && len(rest.got("end")) != 1 {
				t.Errorf("after %v: %d %v", had[cut], rest.status, rest.got())
			}
			other.api.Close()
		}
	})
}

// Who has the end of a failed execution goes on when it was resumed.
func TestStreamAfterResume(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"params": {"fail": "no"}}`)
		w.ended(id)
		path := "v1/executions/" + id + "/events"
		first := w.watch(path + "?after=0")
		first.over()
		end := first.got("end")[0]
		w.post("v1/executions/"+id+"/resume", "").want(http.StatusAccepted, nil)
		again := w.watch(path, "Last-Event-ID", end.id)
		again.over()
		var audit []string
		for _, e := range w.entries(id) {
			audit = append(audit, fmt.Sprintf("%d %s>%s", e.Seq, e.From, e.To))
		}
		if got := moves(t, append(first.got(), again.got()...)); !slices.Equal(got, audit) || len(again.got("end")) != 1 {
			t.Errorf("%q, want %q", got, audit)
		}
	})
}

// A change is seen after 50 ms if the own engine has made it, and after 1.2 s if another has;
// so is a request that waits for its worker.
func TestStreamIsSoonThere(t *testing.T) {
	for _, c := range []struct {
		name  string
		own   bool
		limit time.Duration
	}{{"own process", true, 50 * time.Millisecond}, {"another process", false, 1200 * time.Millisecond}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memstore.New(), nil)
				worker := w.engine
				if !c.own {
					worker = w.over(w.store)
				}
				if err := worker.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				id := w.start("report", `{"params": {"seconds": 7.3}, "delay_seconds": 3.1}`)
				v := w.watch("v1/executions/" + id + "/events?after=0")
				time.Sleep(5 * time.Second)
				asked := time.Now()
				w.post("v1/executions/"+id+"/pause", "").want(http.StatusAccepted, nil)
				v.over()
				entries, seen := w.entries(id), v.got("audit")
				if len(entries) != 5 || len(seen) != 5 {
					t.Fatalf("%+v, and the stream has %v", entries, seen)
				}
				for i, e := range entries[1:] {
					if late := seen[i+1].at.Sub(e.At); late > c.limit {
						t.Errorf("%s>%s is seen after %v", e.From, e.To, late)
					}
				}
				for _, e := range v.got("state") {
					var s httpapi.StateEvent
					if e.into(t, &s); s.Status == "pausing" && e.at.Sub(asked) > 50*time.Millisecond {
						t.Errorf("the request is seen after %v", e.at.Sub(asked))
					}
				}
				if !slices.Contains(states(t, v.got()), "pausing") {
					t.Errorf("%q", states(t, v.got()))
				}
				w.api.Close()
				if err := worker.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Of a loop that is faster than any viewer, all entries come, in their order: to one who asks
// from the beginning, to one who was there, and to one who connects again in the middle.
func TestStreamOfABurst(t *testing.T) {
	virtual(t, nil, func(w *world) {
		items := make([]any, 1500)
		for i := range items {
			items[i] = i
		}
		_, err := w.engine.Jobs().Define(w.Context(), courier.Job{Name: "loop", Params: map[string]any{"items": items}, Steps: []courier.StepSpec{
			{Type: "test.work", Config: map[string]any{"seconds": 2}},
			{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items"}},
			{Type: "test.work", Config: map[string]any{"seconds": 0}},
			{Type: "flow.end"},
			{Type: "test.work", Config: map[string]any{"seconds": 2}},
		}}, nil)
		if err != nil {
			w.Fatal(err)
		}
		id := w.start("loop", "")
		path := "v1/executions/" + id + "/events"
		there, begun := w.watch(path+"?after=0"), w.watch(path+"?after=0")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		begun.close()
		had := begun.got()
		again := w.watch(path, "Last-Event-ID", had[len(had)-1].id)
		there.over()
		again.over()
		whole := w.watch(path + "?after=0")
		whole.over()
		var want []string
		for _, e := range w.entries(id) {
			want = append(want, fmt.Sprintf("%d %s>%s", e.Seq, e.From, e.To))
		}
		if len(want) < 3000 {
			w.Fatalf("%d entries", len(want))
		}
		for name, got := range map[string][]received{"there": there.got(), "again": append(had, again.got()...), "whole": whole.got()} {
			if m := moves(t, got); !slices.Equal(m, want) {
				t.Errorf("%s: %d entries of %d", name, len(m), len(want))
			}
			last := ""
			for _, e := range got {
				if e.name != "state" {
					last = e.id
				} else if last != "" && e.id != last && !strings.HasPrefix(e.id, last) {
					t.Errorf("%s: the state %s comes after the entry %s", name, e.id, last)
				}
			}
		}
	})
}

// What a step moves is told while it does, to viewers only, from any process.
func TestStreamOfProgress(t *testing.T) {
	for _, own := range []bool{true, false} {
		t.Run(fmt.Sprint("own process ", own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, memstore.New(), &httpapi.Options{Access: valuesFor(access.Operator)})
				var reg courier.Registry
				courier.RegisterFunc(&reg, "test.work", func(ctx context.Context, job *courier.Context, _ workConfig) (workOutput, error) {
					for n := range 31 {
						job.Progress(int64(n)*10, 300, canaryParam)
						time.Sleep(time.Second)
					}
					return workOutput{}, nil
				}, nil)
				worker := engine.New(w.store, &reg, &engine.Options{Workspace: t.TempDir(), Secrets: secrets})
				if own {
					w.api = httpapi.New(worker, &httpapi.Options{Access: valuesFor(access.Operator)})
				}
				if err := worker.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				id := w.as("ann").start("report", "")
				path := "v1/executions/" + id + "/events"
				viewers := map[string]*viewer{"vera": nil, "admin": nil, "ann": nil}
				for name := range viewers {
					viewers[name] = w.as(name).watch(path)
				}
				for _, v := range viewers {
					v.over()
				}
				if n := len(viewers["ann"].got("progress")); n > 0 {
					t.Errorf("a client has %d events of progress", n)
				}
				for name, sees := range map[string]bool{"vera": false, "admin": true} {
					list := viewers[name].got("progress")
					least := 2
					if own {
						least = 25
					}
					if len(list) < least {
						t.Errorf("%s has %d events of progress: %v", name, len(list), list)
					}
					if strings.Contains(viewers[name].body(), canaryParam) != sees {
						t.Errorf("%s sees the name of the file, or does not: %v", name, list)
					}
					var p struct{ Step, Done, Total int64 }
					if list[len(list)-1].into(t, &p); p.Total != 300 || p.Done == 0 || list[0].id != "" {
						t.Errorf("%v", list[len(list)-1])
					}
				}
				w.api.Close()
				if err := worker.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Without the stream a client has the audit in pages.
func TestStreamAsJSON(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.as("ann").start("report", "")
		w.ended(id)
		path := "v1/executions/" + id + "/events"
		accept := []string{"Accept", "application/json"}
		var all, rest struct {
			Items []courier.AuditEntry
			Next  string
		}
		w.get(path+"?limit=2", accept...).want(http.StatusOK, &all)
		w.get(path+"?after=2", accept...).want(http.StatusOK, &rest)
		if n := len(w.entries(id)); len(all.Items) != 2 || all.Next == "" || len(rest.Items) != n-2 || rest.Items[0].Seq != 3 {
			t.Errorf("%d and %d of %d", len(all.Items), len(rest.Items), n)
		}
		w.as("ann").get(path, accept...).problem(http.StatusForbidden, "forbidden")
		for _, bad := range []string{"x", "-1", "1.end2", ".end", "99999999999999999999"} {
			w.get(path, "Last-Event-ID", bad).problem(http.StatusBadRequest, "invalid", "Last-Event-ID")
		}
		w.get(path+"?after=-1").problem(http.StatusBadRequest, "invalid", "after")
		var page struct{ Items []httpapi.ExecutionView }
		w.get("v1/events?job=report", accept...).want(http.StatusOK, &page)
		if len(page.Items) != 1 {
			t.Errorf("%+v", page)
		}
	})
}

// What a step has emitted stands with the entry of its end, in the stream as it happens and
// later, and in pages, for those who see values.
func TestStreamOfEmitted(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"params": {"seconds": 5, "text": "emit counted"}}`)
		path := "v1/executions/" + id + "/events"
		live := w.watch(path)
		blind := w.as("blind").watch(path)
		w.ended(id)
		live.over()
		blind.over()
		later := w.watch(path + "?after=0")
		later.over()
		const want = `"events":[{"name":"counted","payload":0},{"name":"counted","payload":1}]`
		emitted := func(what string, texts ...string) {
			t.Helper()
			var with []string
			for _, text := range texts {
				if strings.Contains(text, "counted") {
					with = append(with, text)
				}
			}
			if len(with) != 1 || strings.Count(with[0], want) != 1 || !strings.Contains(with[0], `"to":"completed"`) {
				t.Errorf("%s: the entries with events are %q", what, with)
			}
		}
		texts := func(v *viewer) (list []string) {
			for _, e := range v.got("audit") {
				list = append(list, e.data)
			}
			return list
		}
		emitted("live", texts(live)...)
		emitted("later", texts(later)...)
		for _, page := range []string{path, "v1/executions/" + id + "/audit"} {
			var got struct{ Items []json.RawMessage }
			w.get(page, "Accept", "application/json").want(http.StatusOK, &got)
			var list []string
			for _, raw := range got.Items {
				list = append(list, string(raw))
			}
			emitted(page, list...)
			if body := w.as("blind").get(page, "Accept", "application/json").Body.String(); strings.Contains(body, "counted") {
				t.Errorf("%s: who sees no values gets %s", page, body)
			}
		}
		if all := strings.Join(texts(blind), " "); strings.Contains(all, "counted") || !strings.Contains(all, `"to":"completed"`) {
			t.Errorf("who sees no values is sent %s", all)
		}
	})
}

// A list is told whole, then what is new on its page, has changed or has left it; a client
// sees its own.
func TestStreamOfAList(t *testing.T) {
	virtual(t, nil, func(w *world) {
		first := w.as("ann").start("report", `{"params": {"seconds": 30}}`)
		w.as("ben").start("report", `{"params": {"seconds": 30}}`)
		w.start("other", "")
		v, ann := w.watch("v1/events?state=running&job=report&limit=3"), w.as("ann").watch("v1/events")
		time.Sleep(3 * time.Second)
		if n := len(v.got("execution")); n < 2 {
			t.Errorf("the page has %v", v.got())
		}
		third := w.start("report", `{"params": {"seconds": 100}}`)
		time.Sleep(3 * time.Second)
		var x struct{ ID, Status string }
		list := v.got("execution")
		if list[len(list)-1].into(t, &x); x.ID != third || x.Status != "running" {
			t.Errorf("the newest is %+v", x)
		}
		time.Sleep(40 * time.Second)
		if gone := v.got("removed"); len(gone) != 2 || !strings.Contains(fmt.Sprint(gone), first) {
			t.Errorf("removed are %v", gone)
		}
		for _, e := range ann.got() {
			if e.name != "execution" || !strings.Contains(e.data, first) || strings.Contains(e.data, "params") {
				t.Errorf("ann is told %v", e)
			}
		}
		if got := ann.got(); !strings.Contains(got[len(got)-1].data, `"completed"`) {
			t.Errorf("ann is told %v", got)
		}
		w.get("v1/events?job=reprot").problem(http.StatusNotFound, "not_found", "report")
		v.close()
		ann.close()
	})
}

// A stream has a comment when nothing happens, ends after a quarter of an hour, so that roles
// are looked up again, and when the handler is closed.
func TestStreamLasts(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"delay_seconds": 7200}`)
		for _, path := range []string{"v1/executions/" + id + "/events", "v1/events?queue=none"} {
			v, began := w.watch(path), time.Now()
			time.Sleep(time.Minute)
			v.mu.Lock()
			if v.comments < 3 || v.comments > 4 {
				t.Errorf("%d comments in a minute", v.comments)
			}
			v.mu.Unlock()
			v.over()
			if lasted := time.Since(began); lasted != 15*time.Minute {
				t.Errorf("it lasted for %v", lasted)
			}
		}
		v, list := w.watch("v1/executions/"+id+"/events"), w.watch("v1/events")
		time.Sleep(time.Second)
		w.api.Close()
		synctest.Wait()
		for _, v := range []*viewer{v, list} {
			select {
			case <-v.ended:
			default:
				t.Error("Close does not end a stream")
			}
		}
	})
}

// Too many streams, in all or of one principal, are refused with what to do.
func TestStreamsAreCounted(t *testing.T) {
	virtual(t, &httpapi.Options{Access: policy(), MaxStreams: 12}, func(w *world) {
		id := w.as("ann").start("report", `{"delay_seconds": 60}`)
		path := "v1/executions/" + id + "/events"
		var open []*viewer
		for range 5 {
			open = append(open, w.watch(path), w.watch("v1/events"))
		}
		synctest.Wait()
		w.get(path).problem(http.StatusServiceUnavailable, "unavailable", "10 streams", "poll")
		open = append(open, w.as("ann").watch(path), w.as("vera").watch(path))
		synctest.Wait()
		a := w.as("otto").get("v1/events")
		a.problem(http.StatusServiceUnavailable, "unavailable", "12 streams", "poll")
		if a.Header().Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		open[0].close()
		w.as("otto").get("v1/events").want(http.StatusOK, nil)
		for _, v := range open {
			v.close()
		}
	})
}

// An answer that can't be passed on piece by piece is refused.
func TestStreamNeedsFlush(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", `{"delay_seconds": 60}`)
		r := httptest.NewRequestWithContext(w.Context(), "GET", "/v1/executions/"+id+"/events", nil)
		r.Header.Set("X-User", "admin")
		rec := httptest.NewRecorder()
		w.api.ServeHTTP(struct{ http.ResponseWriter }{rec}, r)
		answer{w, rec, "stream"}.problem(http.StatusNotImplemented, "not_supported", "Flush", "Accept: application/json")
		if h := rec.Header().Get("X-Accel-Buffering"); h != "" {
			t.Errorf("the problem has %q", h)
		}
	})
}
