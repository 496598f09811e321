package httpapi_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A shelf is a lister whose directories have one file; the directory /gone is not there.
type shelf struct{}

func (shelf) Check(t courier.Directory) error {
	if !strings.HasPrefix(t.Path, "/") {
		return errors.New("it does not begin with a slash")
	}
	return nil
}

func (shelf) Least() time.Duration { return time.Second }

func (shelf) List(_ context.Context, _ *courier.Context, t courier.Directory) (courier.Listing, error) {
	if t.Path == "/gone" {
		return courier.Listing{}, errors.New("no such directory: " + canaryParam)
	}
	return courier.Listing{Files: []courier.ListedFile{{Name: canaryParam, Path: t.Path + "/" + canaryParam, Size: 1}}}, nil
}

// services sets a schedule, a monitor and a subscription of the job report, and one of each
// of the job hidden.
func (w *world) services() {
	w.Helper()
	ctx, by := w.Context(), courier.By{Actor: "admin", Reason: canaryParam}
	for suffix, job := range map[string]string{"": "report", "-hidden": "hidden"} {
		_, err := w.engine.Schedules().Set(ctx, schedule.Schedule{Name: "nightly" + suffix, Job: job, Cron: "0 30 2 ? * *", Zone: "Europe/Berlin", Params: map[string]any{"text": canaryParam}}, by)
		if err == nil {
			_, err = w.store.PutMonitor(ctx, monitor.Put{Record: monitor.Record{
				Name: "incoming" + suffix, Lister: "shelf", Kind: store.Job, Target: job,
				Body:   fmt.Appendf(nil, `{"name": "incoming%s", "lister": "shelf", "path": "/in", "job": %q, "params": {"text": %q}}`, suffix, job, canaryParam),
				Status: monitor.Status{State: monitor.Active, Health: []byte(`{"problem": "` + canaryParam + `", "failures": 3}`)},
			}, After: -1})
		}
		if err == nil {
			_, err = w.engine.Subscriptions().Set(ctx, notify.Subscription{
				Name: "failures" + suffix, Kind: notify.KindFunc, Func: "tell", Events: []courier.EventType{courier.EventJobFailed}, Jobs: []string{job},
			}, by)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	if _, err := w.engine.Expectations().Set(ctx, expectation.Expectation{
		Name: "payroll", From: expectation.From{Monitor: "incoming"}, Pattern: "PAY_*.csv", Window: expectation.Window{From: "06:00", Until: "08:00"},
	}, by); err != nil {
		w.Fatal(err)
	}
}

// receive defines the job that takes files.
func (w *world) receive() {
	w.Helper()
	job := jobs()[1]
	job.Name, job.Params = "inbox", map[string]any{"files": nil, "monitor": nil, "event": nil, "seconds": 0, "fail": "", "text": ""}
	if _, err := w.engine.Jobs().Define(w.Context(), job, nil); err != nil {
		w.Fatal(err)
	}
}

// sees fails the test unless the user sees just these names in a list.
func (w *world) sees(path string, want ...string) {
	w.Helper()
	var list struct {
		Items []struct{ Name, Scope string }
		Next  string
	}
	var got []string
	for at := path; at != ""; {
		w.get(at).want(http.StatusOK, &list)
		for _, x := range list.Items {
			got = append(got, x.Name+x.Scope)
		}
		if at = ""; list.Next != "" {
			at = path + "&cursor=" + list.Next
			list.Next = ""
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("%s sees %q in %s, not %q", w.user, got, path, want)
	}
}

// Schedules, monitors and subscriptions have the same rules: who may see, set, switch and
// remove one follows from the jobs that it is about, before and after the change.
func TestKept(t *testing.T) {
	for kind, c := range map[string]struct {
		stored       string // of the job report; that of hidden ends with "-hidden"
		body, other  string // definitions of the job inbox and of report
		chain, wrong string // one that belongs to no job, and one with two problems
		problems     []string
		verbs        []string
		again        string   // the outcome in the journal of a second PUT of the same
		outcomes     []string // those of the verbs
	}{
		"schedules": {
			"nightly", `{"job": "inbox", "every_seconds": 60}`, `{"job": "report", "every_seconds": 60}`, `{"chain": "c", "every_seconds": 60}`,
			`{"job": "inbox", "cron": "0 0 25 * * ?", "overlap": "never"}`, []string{"cron", "overlap"}, []string{"disable", "enable", "enable"}, "unchanged", []string{"done", "done", "unchanged"},
		},
		"monitors": {
			"incoming", `{"job": "inbox", "lister": "shelf", "path": "/in"}`, `{"job": "report", "lister": "shelf", "path": "/in"}`, `{"chain": "c", "lister": "shelf", "path": "/in"}`,
			`{"job": "inbox", "lister": "shelf", "path": "in", "max_failures": -1}`, []string{"path", "max_failures"}, []string{"pause", "enable", "disable", "disable", "enable", "acknowledge"}, "unchanged", []string{"done", "done", "done", "unchanged", "done", "unchanged"},
		},
		"subscriptions": {
			"failures", `{"kind": "func", "events": ["JobFailed"], "jobs": ["inbox"], "func": "tell"}`, `{"kind": "job", "events": ["JobFailed"], "jobs": ["inbox"], "job": {"name": "report"}}`,
			`{"kind": "func", "events": ["JobFailed"], "jobs": ["inbox"], "chains": ["c"], "func": "tell"}`,
			`{"kind": "job", "events": ["JobFaild"], "jobs": ["inbox"]}`, []string{"events", "job"}, nil, "unchanged", nil,
		},
	} {
		t.Run(kind, func(t *testing.T) {
			virtual(t, nil, func(w *world) {
				w.services()
				w.receive()
				at := "v1/" + kind + "/"
				w.sees("v1/"+kind+"?limit=1", c.stored, c.stored+"-hidden")
				w.as("vera").sees("v1/"+kind+"?limit=1", c.stored)
				w.as("ann").sees("v1/" + kind + "?limit=1")
				w.as("vera").get(at+c.stored).want(http.StatusOK, nil)
				w.as("vera").get(at+c.stored+"-hidden").problem(http.StatusNotFound, "not_found")
				w.get(at+c.stored[1:]).problem(http.StatusNotFound, "not_found", "did you mean")
				if a := w.as("vera").get(at + c.stored[1:]); strings.Contains(a.Body.String(), "did you mean") {
					t.Errorf("vera learns names: %s", a.Body)
				}

				mona := w.as("mona")
				mona.put(at+"new%2Fone", c.body).want(http.StatusCreated, nil)
				mona.put(at+"new%2Fone", c.body).want(http.StatusOK, nil)
				mona.put(at+"new%2Fone", strings.Replace(c.body, "{", `{"name": "another", `, 1)).problem(http.StatusUnprocessableEntity, "definition", "path")
				mona.put(at+"b", c.other).problem(http.StatusForbidden, "forbidden", "editor")
				mona.put(at+"b", c.chain).problem(http.StatusForbidden, "forbidden", "all jobs")
				mona.put(at+"b", strings.ReplaceAll(c.body, "inbox", "hidden")).problem(http.StatusNotFound, "not_found")
				mona.put(at+"b", strings.ReplaceAll(c.body, "inbox", "inbx")).problem(http.StatusNotFound, "not_found")
				mona.put(at+c.stored, c.body).problem(http.StatusNotFound, "not_found") // there is one of report, whose client she is
				mona.put(at+"b", c.wrong).problem(http.StatusUnprocessableEntity, "definition", c.problems...)
				mona.put(at+"b", `{"jbo": "inbox"}`).problem(http.StatusUnprocessableEntity, "definition", "jbo", `did you mean "job"`)
				mona.put(at+"b", "").problem(http.StatusBadRequest, "invalid", "missing")
				mona.put(at+"b", "{").problem(http.StatusBadRequest, "invalid", "no JSON")
				w.as("otto").put(at+c.stored, c.other).problem(http.StatusForbidden, "forbidden", "editor")
				w.put(at+"b", strings.ReplaceAll(c.body, "inbox", "inbx")).problem(http.StatusUnprocessableEntity, "definition", "did you mean")

				mona.send("DELETE", at+c.stored, "").problem(http.StatusNotFound, "not_found")
				w.as("vera").send("DELETE", at+c.stored, "").problem(http.StatusForbidden, "forbidden", "editor")
				for _, verb := range c.verbs {
					mona.post(at+"new%2Fone/"+verb, `{"reason": "for now"}`).want(http.StatusOK, nil)
					w.as("vera").post(at+c.stored+"/"+verb, "").problem(http.StatusForbidden, "forbidden", "operator")
					w.as("otto").post(at+c.stored+"/"+verb, "").want(http.StatusOK, nil)
					mona.post(at+c.stored+"/"+verb, "").problem(http.StatusNotFound, "not_found")
				}
				mona.send("DELETE", at+"new%2Fone", "").want(http.StatusNoContent, nil)
				mona.send("DELETE", at+"new%2Fone", "").problem(http.StatusNotFound, "not_found")

				list, err := w.engine.Journal(t.Context(), store.ActionFilter{Name: "new/one"})
				if err != nil {
					t.Fatal(err)
				}
				// Each request has two entries, also one that changes nothing.
				var outcomes, want []string
				for _, a := range slices.Backward(list) {
					outcomes = append(outcomes, a.Outcome)
				}
				for _, o := range slices.Concat([]string{"done", c.again}, c.outcomes, []string{"done"}) {
					want = append(want, "asked", o)
				}
				if !slices.Equal(outcomes, want) {
					t.Errorf("the journal has %q, not %q", outcomes, want)
				}
				if got := list[0]; got.Verb != "removed" || got.Outcome != "done" || got.By != "mona" || got.Via != "api" {
					t.Errorf("%+v", got)
				}
				if got := list[1]; got.Verb != "remove" || got.Outcome != "asked" || got.Kind != kind[:len(kind)-1] || !strings.Contains(string(got.Was), "inbox") {
					t.Errorf("%+v", got)
				}
				list, err = w.engine.Journal(t.Context(), store.ActionFilter{Name: "b"})
				if err != nil || slices.ContainsFunc(list, func(a store.Action) bool { return a.Outcome == "done" }) {
					t.Errorf("%v, %+v", err, list)
				}
			})
		})
	}
}

// If the journal can't be written, no definition is changed.
func TestKeptWithoutJournal(t *testing.T) {
	w := newWorld(t, journalless{memstore.New()}, nil)
	w.put("v1/schedules/a", `{"job": "report", "every_seconds": 60}`).problem(http.StatusServiceUnavailable, "journal", "nothing was done")
	w.sees("v1/schedules?limit=10")
	w.put("v1/limits/global", `{"running": 1}`).problem(http.StatusServiceUnavailable, "journal")
	w.sees("v1/limits?limit=10")
}

// A journalless store fails to write its journal.
type journalless struct{ *memstore.Store }

func (journalless) Note(context.Context, store.Action) (store.Action, error) {
	return store.Action{}, errors.New("the disk is full")
}

// Values in definitions are hidden from those who may not see them: in the definitions and
// in what has gone wrong with them.
func TestKeptHidden(t *testing.T) {
	a := valuesFor(access.Operator)
	virtual(t, &httpapi.Options{Access: a}, func(w *world) {
		w.services()
		err := w.store.PutSubscription(t.Context(), notify.Record{Name: "hook", Channel: "webhook", Jobs: []string{"report"}, Disabled: true, Reason: canaryParam, Body: []byte(
			`{"name": "hook", "kind": "webhook", "events": ["JobFailed"], "jobs": ["report"], "webhook": {"url": "https://example.com/` + canaryParam +
				`", "secrets": ["secret:hook"], "headers": {"Token": "` + canaryParam + `", "Key": "secret:key"}}}`)})
		if err != nil {
			t.Fatal(err)
		}
		w.as("otto").post("v1/schedules/nightly/disable", `{"reason": "`+canaryParam+`"}`).want(http.StatusOK, nil)
		w.as("otto").post("v1/monitors/incoming/pause", `{"reason": "`+canaryParam+`"}`).want(http.StatusOK, nil)
		for _, path := range []string{
			"schedules", "monitors", "subscriptions", "schedules/nightly", "monitors/incoming", "subscriptions/hook",
		} {
			got := w.as("vera").get("v1/"+path).want(http.StatusOK, nil).Body.String()
			if strings.Contains(got, canaryParam) {
				t.Errorf("vera sees in %s: %s", path, got)
			}
			if got := w.as("otto").get("v1/" + path).Body.String(); !strings.Contains(got, canaryParam) {
				t.Errorf("otto does not see in %s: %s", path, got)
			}
		}
		got := w.as("vera").get("v1/subscriptions/hook").Body.String()
		for _, name := range []string{"secret:hook", "secret:key", "Token"} {
			if !strings.Contains(got, name) {
				t.Errorf("%s lacks %s", got, name)
			}
		}
		w.as("vera").get("v1/monitors/incoming/files").problem(http.StatusForbidden, "forbidden", "values")
	})
}
