package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/attention"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// Limits are set by admins, and seen by who may see what they are about.
func TestLimits(t *testing.T) {
	virtual(t, nil, func(w *world) {
		var l httpapi.LimitView
		for _, scope := range []string{"global", "job:report", "job:a%2Fb", "key:acme", "key:user:*"} {
			w.put("v1/limits/"+scope, `{"running": 2, "reason": "less"}`).want(http.StatusOK, &l)
		}
		if (l != httpapi.LimitView{Scope: "key:user:*", Running: 2}) {
			t.Errorf("%+v", l)
		}
		for _, scope := range []string{"global", "key:user:*"} {
			w.put("v1/limits/"+scope, `{"running": 2, "reason": "again"}`).want(http.StatusOK, nil)
			var journal struct{ Items []store.Action }
			w.get("v1/journal?kind=limit&name="+url.QueryEscape(scope)).want(http.StatusOK, &journal)
			if len(journal.Items) == 0 || journal.Items[0].Outcome != "unchanged" || journal.Items[0].Reason != "again" {
				t.Errorf("a limit that is set again: %+v", journal.Items)
			}
		}
		w.sees("v1/limits?limit=1", "global", "job:a/b", "job:report", "key:acme", "key:user:*")
		w.as("watcher").sees("v1/limits?limit=2", "global", "job:a/b", "job:report", "key:acme", "key:user:*")
		w.as("vera").sees("v1/limits?limit=1", "job:report")
		w.send("DELETE", "v1/limits/key:user:*", "").want(http.StatusNoContent, nil)
		w.send("DELETE", "v1/limits/key:user:*", "").problem(http.StatusNotFound, "not_found", "no limit")
		w.send("DELETE", "v1/limits/global", "").want(http.StatusNoContent, nil)
		w.sees("v1/limits?limit=10", "job:a/b", "job:report", "key:acme")
		for body, text := range map[string]string{`{}`: "/running", `{"running": -1}`: "not a number", `{"running": 1.5}`: "whole number", `{"running": 99999999999}`: "not a number"} {
			w.put("v1/limits/global", body).problem(http.StatusBadRequest, "invalid", text)
		}
		w.put("v1/limits/jobs:report", `{"running": 1}`).problem(http.StatusBadRequest, "invalid", "job:NAME")
		w.put("v1/limits/key:"+strings.Repeat("x", 2000), `{"running": 1}`).problem(http.StatusBadRequest, "invalid", "1000")
		w.as("editor").put("v1/limits/global", `{"running": 1}`).problem(http.StatusForbidden, "forbidden", "admin")
		list, err := w.engine.Journal(t.Context(), store.ActionFilter{Kind: "limit", Name: "global"})
		if err != nil || list[0].Outcome != "refused" || list[0].By != "editor" {
			t.Fatalf("%v, %+v", err, list)
		}
		if a := list[len(list)-2]; a.Verb != "set" || a.Outcome != "done" || string(a.Now) != "2" || a.Reason != "less" || a.By != "admin" {
			t.Errorf("%+v", a)
		}
	})
}

// A visitor sees what needs attention of its jobs; what belongs to none is for who may see all.
func TestAttention(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.services()
		for _, job := range []string{"report", "other", "hidden"} {
			w.ended(w.start(job, `{"params": {"fail": "wrong", "text": "`+canaryParam+`"}}`))
		}
		err := w.store.PutSubscription(t.Context(), notify.Record{Name: "failures", Disabled: true, Reason: "gone", Channel: "func:tell", Body: []byte(`{"name": "failures", "kind": "func"}`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range []string{"report", "hidden"} {
			_, err := w.store.PutSchedule(t.Context(), schedule.Record{
				Name: "s-" + job, Kind: store.Job, Target: job, Body: []byte(`{"name": "s-` + job + `", "job": "` + job + `", "every_seconds": 60}`),
				Status: schedule.Status{Problem: canaryParam},
			})
			if err == nil {
				_, err = w.store.PutMonitor(t.Context(), monitor.Put{After: -1, Record: monitor.Record{
					Name: "m-" + job, Lister: "shelf", Kind: store.Job, Target: job, Body: []byte(`{"name": "m-` + job + `", "job": "` + job + `", "path": "/in"}`),
					Status: monitor.Status{State: monitor.Degraded, Health: []byte(`{"problem": "` + canaryParam + `"}`)},
				}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		of := func(user string) (got []string) {
			var at attention.List
			body := w.as(user).get("v1/attention").want(http.StatusOK, &at).Body.String()
			for _, e := range at.Entries {
				got = append(got, string(e.Kind)+" "+e.Job+e.Name)
			}
			if sees := user == "otto" || user == "operator"; sees != strings.Contains(body, canaryParam) {
				t.Errorf("%s sees the canary: %t\n%s", user, !sees, body)
			}
			return got
		}
		own := []string{"failed report", "monitor reportm-report", "schedule reports-report"}
		all := []string{
			"expectation payroll", "expectation payroll", "failed hidden", "failed other", "failed report", "monitor hiddenm-hidden", "monitor reportm-report",
			"schedule hiddens-hidden", "schedule reports-report", "subscription failures",
		}
		for user, want := range map[string][]string{"watcher": all, "operator": all, "vera": own, "otto": own, "ann": nil, "nobody": nil} {
			got := of(user)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, not %q", user, got, want)
			}
		}
	})
}

// Queues, workers and health are for who may see all jobs.
func TestOverview(t *testing.T) {
	a := valuesFor(access.Operator)
	health := func(context.Context) (any, error) { return map[string]int{"schema": 7}, nil }
	virtual(t, &httpapi.Options{Access: a, Health: health}, func(w *world) {
		w.start("report", `{"params": {"seconds": 100}, "limit_keys": ["`+canaryParam+`"]}`)
		w.start("report", `{"params": {}, "delay_seconds": 100}`)
		time.Sleep(time.Second)
		var q struct {
			Running int
			Queues  []store.QueueCensus
			Keys    []store.NamedCount
		}
		w.as("operator").get("v1/queues").want(http.StatusOK, &q)
		if q.Running != 1 || len(q.Queues) != 1 || q.Queues[0].Queued != 1 || len(q.Keys) != 1 {
			t.Errorf("%+v", q)
		}
		if body := w.as("watcher").get("v1/queues?count_limit=1").want(http.StatusOK, &q).Body.String(); strings.Contains(body, canaryParam) || q.Keys == nil {
			t.Errorf("the watcher sees keys: %s", body)
		}
		w.get("v1/queues?count_limit=0").problem(http.StatusBadRequest, "invalid", "count_limit")
		var workers struct{ Items []store.Worker }
		w.as("watcher").get("v1/workers").want(http.StatusOK, &workers)
		if len(workers.Items) != 1 || len(workers.Items[0].Queues) == 0 {
			t.Errorf("%+v", workers)
		}
		w.start("report", `{"params": {}}`)
		time.Sleep(2 * time.Minute)
		var figures struct{ Items []store.HourFigures }
		w.as("watcher").get("v1/figures").want(http.StatusOK, &figures)
		if n := len(figures.Items); n != 24 || figures.Items[n-1].Completed == 0 {
			t.Errorf("%+v", figures)
		}
		w.get("v1/figures?hours=361").problem(http.StatusBadRequest, "invalid", "hours")
		if body := w.as("watcher").get("v1/health").want(http.StatusOK, nil).Body.String(); strings.TrimSpace(body) != `{"engine":{},"store":{"schema":7}}` {
			t.Errorf("%s", body)
		}
		for _, path := range []string{"queues", "workers", "figures", "health", "journal"} {
			w.as("vera").get("v1/"+path).problem(http.StatusForbidden, "forbidden")
		}
		w.as("editor").get("v1/journal").problem(http.StatusForbidden, "forbidden", "admin")
	})
}

// A broken maintainer fails.
type broken struct{}

func (broken) Maintain(context.Context, courier.Maintenance) error {
	return errors.New("no such mount " + canaryParam)
}

// The health of the engine has maintenance that fails. The text of the error may have values.
func TestHealthOfMaintenance(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		courier.RegisterFunc(w.engine.Registry(), "test.kept", func(context.Context, *courier.Context, struct{}) (struct{}, error) {
			return struct{}{}, nil
		}, &courier.TypeOptions{Maintainer: broken{}})
		if err := errors.Join(w.engine.Stop(w.Context()), w.engine.Start(w.Context())); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for user, sees := range map[string]bool{"operator": true, "watcher": false} {
			body := w.as(user).get("v1/health").want(http.StatusOK, nil).Body.String()
			if !strings.Contains(body, `"maintenance":[{"step_type":"test.kept","since":`) || strings.Contains(body, canaryParam) != sees {
				t.Errorf("%s sees %s", user, body)
			}
		}
	})
}

// Journal entries come newest first, in pages, and are selected by kind, name and author.
func TestJournal(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		for _, user := range []string{"otto", "admin"} {
			w.as(user).post("v1/schedules/nightly/disable", "").want(http.StatusOK, nil)
			w.as(user).post("v1/schedules/nightly/enable", "").want(http.StatusOK, nil)
		}
		pages := func(q string) (got []string) {
			for cursor := ""; ; {
				var list struct {
					Items []store.Action
					Next  string
				}
				w.get("v1/journal?limit=2"+q+cursor).want(http.StatusOK, &list)
				for _, a := range list.Items {
					got = append(got, a.By+" "+a.Verb)
				}
				if list.Next == "" {
					return got
				}
				cursor = "&cursor=" + list.Next
			}
		}
		if got, want := pages("&by=otto"), []string{"otto enabled", "otto disabled"}; !slices.Equal(got, want) {
			t.Errorf("%q, not %q", got, want)
		}
		if got, want := pages("&asked=yes&by=otto"), []string{"otto enabled", "otto enable", "otto disabled", "otto disable"}; !slices.Equal(got, want) {
			t.Errorf("with what was asked for: %q, not %q", got, want)
		}
		w.get("v1/journal?asked=maybe").problem(http.StatusBadRequest, "invalid", "asked", "one of yes, no")
		if got := pages("&asked=yes&kind=schedule&name=nightly"); len(got) != 9 {
			t.Errorf("%q", got)
		}
		w.get("v1/journal?by=%00").problem(http.StatusBadRequest, "invalid", "by", "NUL")
		if got := pages("&kind=monitor"); len(got) != 0 {
			t.Errorf("%q", got)
		}
	})
}

// A search finds what the user may see, by the beginnings of names, by id and by label.
func TestSearch(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.services()
		id := w.as("ann").start("report", `{"params": {"text": "a"}, "labels": {"partner": "acme"}}`)
		w.ended(id)
		other := w.start("other", `{"labels": {"partner": "acme"}}`)
		w.ended(other)
		for i := range 30 {
			job := jobs()[0]
			job.Name = "re-" + string(rune('A'+i))
			if _, err := w.engine.Jobs().Define(t.Context(), job, nil); err != nil {
				t.Fatal(err)
			}
		}
		find := func(user, q string) (f struct {
			Executions                        []map[string]any
			Jobs, Chains, Schedules, Monitors []string
			Files                             []httpapi.FoundFile
		}) {
			t.Helper()
			w.as(user).get("v1/search?q="+q).want(http.StatusOK, &f)
			return f
		}
		if f := find("vera", "re"); !slices.Equal(f.Jobs, []string{"report"}) || f.Chains == nil || f.Files == nil {
			t.Errorf("%+v", f)
		}
		if f := find("ann", "report"); !slices.Equal(f.Jobs, []string{"report"}) {
			t.Errorf("%+v", f)
		}
		if f := find("admin", "re"); len(f.Jobs) != 20 || f.Jobs[0] != "re-A" {
			t.Errorf("%+v", f)
		}
		if f := find("nobody", "re"); len(f.Jobs) != 0 {
			t.Errorf("%+v", f)
		}
		if f := find("vera", "nightly"); !slices.Equal(f.Schedules, []string{"nightly"}) {
			t.Errorf("%+v", f)
		}
		if f := find("admin", "nightly"); !slices.Equal(f.Schedules, []string{"nightly", "nightly-hidden"}) {
			t.Errorf("%+v", f)
		}
		if f := find("admin", "in"); !slices.Equal(f.Monitors, []string{"incoming", "incoming-hidden"}) {
			t.Errorf("%+v", f)
		}
		if f := find("vera", "in"); !slices.Equal(f.Monitors, []string{"incoming"}) {
			t.Errorf("%+v", f)
		}
		if _, err := w.engine.Chains().Define(t.Context(), chain.Chain{Name: "daily", Members: []chain.Member{{Job: "report"}}}, nil); err != nil {
			t.Fatal(err)
		}
		for user, want := range map[string][]string{"watcher": {"daily"}, "vera": {}} {
			if f := find(user, "da"); !slices.Equal(f.Chains, want) {
				t.Errorf("%s: %+v", user, f)
			}
		}
		if f := find("ann", id); len(f.Executions) != 1 || f.Executions[0]["id"] != id || f.Executions[0]["params"] != nil {
			t.Errorf("%+v", f)
		}
		if f := find("ben", id); len(f.Executions) != 0 {
			t.Errorf("%+v", f)
		}
		for user, want := range map[string][]any{"admin": {other, id}, "otto": {id}, "vera": nil} {
			var got []any
			for _, x := range find(user, "partner=acme").Executions {
				got = append(got, x["id"])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s finds %v, not %v", user, got, want)
			}
		}
		for _, q := range []string{"", strings.Repeat("x", 201), "%0A"} {
			w.get("v1/search?q="+q).problem(http.StatusBadRequest, "invalid", "1 to 200")
		}
	})
}

// Files are found by their names, for who may see the values of the job.
func TestSearchFiles(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		id := courier.ExecutionID(w.start("report", `{"params": {"text": "Invoice-1.csv"}}`))
		w.ended(string(id))
		for user, want := range map[string]int{"admin": 1, "otto": 1, "vera": 0} {
			for _, q := range []string{"invoice", "Invoice-1.csv", "*-1*"} {
				var f httpapi.Found
				w.as(user).get("v1/search?q="+q).want(http.StatusOK, &f)
				if len(f.Files) != want || want == 1 && (f.Files[0].Execution != id || f.Files[0].Job != "report" || f.Files[0].Files[0].Path != "/out/Invoice-1.csv") {
					t.Errorf("%s, %s: %+v", user, q, f.Files)
				}
			}
		}
	})
}

// A store without a role is answered with 501, which names the role.
func TestNotSupported(t *testing.T) {
	w := newWorld(t, struct{ store.Store }{memstore.New()}, nil)
	for path, role := range map[string]string{
		"GET v1/schedules": "schedule.Store", "GET v1/schedules/x": "schedule.Store", "GET v1/ticks": "schedule.Store",
		"POST v1/schedules/x/enable": "schedule.Store", "DELETE v1/schedules/x": "schedule.Store",
		"GET v1/monitors": "monitor.Store", "GET v1/monitors/x/files": "monitor.Store",
		"GET v1/subscriptions": "notify.Store", "GET v1/subscriptions/x": "notify.Store", "GET v1/deliveries": "notify.Store", "POST v1/subscriptions/x/replay": "notify.Store",
		"GET v1/queues": "store.Overview", "GET v1/workers": "store.Workers", "GET v1/journal": "store.Journal",
	} {
		method, at, _ := strings.Cut(path, " ")
		w.send(method, at, "").problem(http.StatusNotImplemented, "not_supported", role)
	}
	w.put("v1/schedules/x", `{"job": "report", "every_seconds": 60}`).problem(http.StatusNotImplemented, "not_supported", "schedule.Store")
	w.put("v1/limits/global", `{"running": 3}`).want(http.StatusOK, nil)
	w.sees("v1/limits?limit=1", "global")
	var f httpapi.Found
	w.get("v1/search?q=rep").want(http.StatusOK, &f)
	if want := []string{"schedule.Store", "monitor.Store", "store.Trail"}; !slices.Equal(f.Missing, want) || !slices.Equal(f.Jobs, []string{"report"}) {
		t.Errorf("%+v", f)
	}
	var a attention.List
	w.get("v1/attention").want(http.StatusOK, &a)
	if !slices.Contains(a.Missing, "store.Overview") {
		t.Errorf("%+v", a)
	}
}

// Deliveries that failed are listed and delivered again.
func TestDeliveries(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.services()
		for _, name := range []string{"failures", "failures-hidden"} {
			for range 2 {
				job := map[string]string{"failures": "report", "failures-hidden": "hidden"}[name]
				w.ended(w.start(job, `{"params": {"fail": "wrong", "text": "`+canaryParam+`"}}`))
			}
		}
		type deliveries struct {
			Items []notify.Delivery
			Next  string
		}
		all := func(user, q string) (list []notify.Delivery) {
			t.Helper()
			for cursor := ""; ; {
				var got deliveries
				w.as(user).get("v1/deliveries?limit=1"+q+cursor).want(http.StatusOK, &got)
				list = append(list, got.Items...)
				if got.Next == "" {
					return list
				}
				cursor = "&cursor=" + got.Next
			}
		}
		list := all("admin", "")
		if len(list) != 4 || list[0].Subscription != "failures" || list[3].Subscription != "failures-hidden" || list[0].ID == list[1].ID {
			t.Fatalf("%+v", list)
		}
		for user, want := range map[string]int{"otto": 2, "vera": 2, "ann": 0, "nobody": 0, "watcher": 4} {
			got := all(user, "")
			if len(got) != want {
				t.Errorf("%s sees %d", user, len(got))
			}
			text, _ := json.Marshal(got)
			if sees := strings.Contains(string(text), canaryParam); sees != (user == "otto") {
				t.Errorf("%s sees the canary: %t in %s", user, sees, text)
			}
		}
		if got := all("admin", "&subscription=failures"); len(got) != 2 {
			t.Errorf("%+v", got)
		}
		if got := all("admin", "&state=failed"); len(got) != 0 {
			t.Errorf("%+v", got)
		}
		w.get("v1/deliveries?state=lost").problem(http.StatusBadRequest, "invalid", "pending, failed")

		taken, err := w.store.DueDeliveries(t.Context(), notify.DueRequest{Channels: []string{"func:tell"}, Max: 10, Each: 10, Lease: time.Minute})
		if err != nil || len(taken.List) != 4 {
			t.Fatalf("%v, %+v", err, taken)
		}
		for _, d := range taken.List {
			n := &d.Notification
			err := w.store.RecordDeliveries(t.Context(), []notify.Outcome{{Subscription: n.Subscription, Event: n.ID, Token: d.Token, Result: notify.GivenUp, Error: canaryParam}})
			if err != nil {
				t.Fatal(err)
			}
		}
		var r httpapi.Replayed
		failed := all("otto", "&state=failed")
		if len(failed) != 2 || failed[0].LastErr != canaryParam {
			t.Fatalf("%+v", failed)
		}
		if got := all("vera", "&state=failed"); len(got) != 2 || strings.Contains(got[0].LastErr, canaryParam) {
			t.Errorf("vera sees %+v", got)
		}
		otto := w.as("otto")
		otto.post("v1/subscriptions/failures/replay", `{"events": ["`+failed[0].ID+`"], "reason": "it is up again"}`).want(http.StatusOK, &r)
		if r.Replayed != 1 || len(all("otto", "&state=failed")) != 1 {
			t.Errorf("%+v", r)
		}
		otto.post("v1/subscriptions/failures/replay", "").want(http.StatusOK, &r)
		if r.Replayed != 1 || len(all("otto", "&state=failed")) != 0 {
			t.Errorf("%+v", r)
		}
		otto.post("v1/subscriptions/failures/replay", `{"events": ["x"]}`).problem(http.StatusBadRequest, "invalid", "event")
		w.as("vera").post("v1/subscriptions/failures/replay", "").problem(http.StatusForbidden, "forbidden", "operator")
		otto.post("v1/subscriptions/failures-hidden/replay", "").problem(http.StatusNotFound, "not_found")
	})
}
