package httpapi_test

import (
	"net/http"
	"testing"
)

// The names in what is sent are exact: package json would take "PARAMS" and "param\u017f" for
// "params", past the check of names that are repeated.
func TestNamesAreExact(t *testing.T) {
	virtual(t, nil, func(w *world) {
		id := w.start("report", "")
		w.ended(id)
		put := func(path, body string) answer { return w.put(path, body, "If-None-Match", "*") }
		for path, c := range map[string]struct {
			send   func(path, body string) answer
			bodies []string
		}{
			"v1/jobs/report/executions":       {plainPost(w), []string{`{"params": {}, "PARAMS": {"text": "a"}}`, `{"param\u017f": {}}`, `{"Hold": true}`, `{"params": {"text": "a", "text": "b"}}`}},
			"v1/executions/" + id + "/rerun":  {plainPost(w), []string{`{"Params": {}}`, `{"reaſon": "x"}`}},
			"v1/executions/" + id + "/resume": {plainPost(w), []string{`{"SKIP": true}`, `{"from": "", "From": ""}`}},
			"v1/executions/" + id + "/cancel": {plainPost(w), []string{`{"Reason": "x"}`}},
			"v1/bulk":                         {plainPost(w), []string{`{"action": "cancel", "WHERE": "state:failed", "where": "state:paused"}`, `{"action": "cancel", "ids": [], "IDs": ["` + id + `"]}`}},
			"v1/limits/global":                {w.putPlain, []string{`{"Running": 1}`, `{"running": 1, "RUNNING": 0}`}},
			"v1/jobs/new":                     {put, []string{`{"Steps": []}`, `{"steps": [], "STEPS": []}`, `{"steps": [{"type": "test.work", "Config": {}}]}`}},
			"v1/chains/new":                   {put, []string{`{"Members": []}`}},
			"v1/schedules/new":                {w.putPlain, []string{`{"job": "report", "CRON": "0 0 * * * ?"}`}},
			"v1/monitors/new":                 {w.putPlain, []string{`{"Job": "report"}`}},
			"v1/subscriptions/new":            {w.putPlain, []string{`{"Kind": "webhook"}`, `{"kind": "webhook", "webhook": {"URL": "https://a.example"}}`}},
		} {
			for _, body := range c.bodies {
				if a := c.send(path, body); a.Code != http.StatusBadRequest && a.Code != http.StatusUnprocessableEntity {
					t.Errorf("%s %s: %d %s", path, body, a.Code, a.Body)
				}
			}
		}
		for _, query := range []string{"Limit=1", "STATE=failed", "ſtate=failed", "limit=1&LIMIT=2"} {
			w.get("v1/executions?"+query).problem(http.StatusBadRequest, "invalid")
		}
	})
}

func plainPost(w *world) func(path, body string) answer {
	return func(path, body string) answer { return w.post(path, body) }
}

func (w *world) putPlain(path, body string) answer { return w.put(path, body) }
