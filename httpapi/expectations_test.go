package httpapi_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/monitor"
)

// keepArrival writes the record of a day of an expectation as an engine does.
func (w *world) keepArrival(a expectation.Arrival) {
	w.Helper()
	s := w.store
	list, err := s.Expectations(w.Context(), expectation.Filter{Name: a.Expectation})
	if err != nil || len(list.List) != 1 {
		w.Fatalf("%+v, %v", list, err)
	}
	r := &list.List[0]
	done, err := s.RecordLooks(w.Context(), []expectation.Look{{Expectation: r.Name, Revision: r.Revision, Progress: r.Progress, After: -1, Arrivals: []expectation.Kept{a.Kept()}}})
	if err != nil || !done[0] {
		w.Fatal(done, err)
	}
}

// An expectation is saved with what looks doubtful, listed and removed; the list of arrivals says
// what came, as JSON and as CSV; and a day can be excused.
func TestExpectations(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		const rates = `{"from": {"monitor": "incoming"}, "pattern": "rates*.csv", "window": {"from": "06:00", "until": "08:00", "grace": "15m"}}`
		var x struct {
			Name     string
			SavedAt  time.Time `json:"saved_at"`
			Warnings []struct{ Pointer, Message string }
		}
		w.put("v1/expectations/=rates", rates).want(http.StatusCreated, &x)
		if x.Name != "=rates" || x.SavedAt.IsZero() || len(x.Warnings) != 1 || !strings.Contains(x.Warnings[0].Message, "nobody is told") {
			t.Errorf("%+v", x)
		}
		w.put("v1/expectations/=rates", rates).want(http.StatusOK, &x)
		w.put("v1/expectations/other", strings.Replace(rates, "incoming", "incomming", 1)).problem(http.StatusUnprocessableEntity, "definition")
		w.post("v1/check/expectation", strings.Replace(rates, "{", `{"name": "x", `, 1)).want(http.StatusOK, nil)
		var list struct{ Items []expectation.Expectation }
		w.get("v1/expectations").want(http.StatusOK, &list)
		if len(list.Items) != 2 || list.Items[0].Name != "=rates" {
			t.Errorf("%+v", list)
		}
		w.as("vera").get("v1/expectations/=rates").problem(http.StatusNotFound, "not_found") // she sees one job
		w.as("vera").get("v1/arrivals").problem(http.StatusForbidden, "forbidden")

		day := expectation.Arrival{
			ID: "0193a000-0000-7000-8000-000000000001", Expectation: "=rates", Date: "2000-01-01", State: expectation.Missing, Zone: "UTC", DecidedAt: time.Now(),
			Files: []expectation.File{{Name: "rates.csv", Size: 0, Wrong: "it is empty"}},
		}
		w.keepArrival(day)
		day.Date, day.ID = "1999-12-31", "0193a000-0000-7000-8000-000000000002"
		day.State = expectation.Arrived
		w.keepArrival(day)
		var arrivals struct {
			Items []httpapi.ArrivalView
			Next  string
		}
		w.get("v1/arrivals?expectation=%3Drates").want(http.StatusOK, &arrivals) // today
		if len(arrivals.Items) != 1 || arrivals.Items[0].Date != "2000-01-01" || arrivals.Items[0].Text == "" || arrivals.Items[0].Files[0].Name != "rates.csv" {
			t.Errorf("%+v", arrivals)
		}
		w.get("v1/arrivals?since=1999-01-01&expectation=%3Drates&limit=1").want(http.StatusOK, &arrivals)
		if len(arrivals.Items) != 1 || arrivals.Items[0].Date != "2000-01-01" || arrivals.Next == "" {
			t.Errorf("%+v", arrivals)
		}
		w.get("v1/arrivals?since=1999-01-01&expectation=%3Drates&limit=1&cursor="+arrivals.Next).want(http.StatusOK, &arrivals)
		if len(arrivals.Items) != 1 || arrivals.Items[0].Date != "1999-12-31" {
			t.Errorf("%+v", arrivals)
		}
		w.get("v1/arrivals?until=2000-01-01&state=missing&expectation=%3Drates").want(http.StatusOK, &arrivals)
		if len(arrivals.Items) != 1 || arrivals.Items[0].State != expectation.Missing {
			t.Errorf("%+v", arrivals)
		}
		for _, bad := range []string{"date=1.1.2000", "since=x", "date=2000-01-01&until=2000-01-01", "state=gone", "cursor=x"} {
			w.get("v1/arrivals?"+bad).problem(http.StatusBadRequest, "invalid")
		}
		csv := w.get("v1/arrivals.csv?since=1999-01-01&expectation=%3Drates").want(http.StatusOK, nil).Body.String()
		if lines := strings.Split(csv, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[1], "2000-01-01,UTC,'=rates,missing,") || !strings.HasPrefix(lines[2], "1999-12-31,UTC,'=rates,arrived,") {
			t.Errorf("%s", csv)
		}
		for _, bad := range []string{`{"date": "today", "reason": "x"}`, `{"date": "2000-01-01"}`} {
			w.post("v1/expectations/=rates/excuse", bad).problem(http.StatusBadRequest, "invalid")
		}
		var excused httpapi.ArrivalView
		w.post("v1/expectations/=rates/excuse", `{"date": "2000-01-01", "reason": "closed today"}`).want(http.StatusOK, &excused)
		if excused.State != expectation.Excused || !strings.HasSuffix(excused.Text, ": closed today") {
			t.Errorf("%+v", excused)
		}
		w.post("v1/expectations/=rates/excuse", `{"date": "1999-12-31", "reason": "closed"}`).problem(http.StatusConflict, "conflict")
		w.send("DELETE", "v1/expectations/=rates", "").want(http.StatusNoContent, nil)
		w.get("v1/expectations/=rates").problem(http.StatusNotFound, "not_found")
	})
}

// An expectation that looks into a directory itself has a monitor, which is changed and removed with it.
func TestLookOfAnExpectation(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		const rates = `{"from": {"lister": "shelf", "connection_id": "globex", "path": "/in", "every": "2m"}, "pattern": "rates*.csv", "window": {"from": "06:00", "until": "08:00"}}`
		w.put("v1/expectations/rates", strings.Replace(rates, "2m", "20m", 1)).problem(http.StatusUnprocessableEntity, "definition")
		var x expectation.Expectation
		w.put("v1/expectations/rates", rates).want(http.StatusCreated, nil)
		w.get("v1/expectations/rates").want(http.StatusOK, &x)
		if x.From != (expectation.From{Lister: "shelf", Connection: "globex", Path: "/in", Every: "2m"}) {
			t.Errorf("%+v", x.From)
		}
		var m monitor.Monitor
		look := "v1/monitors/" + url.PathEscape(monitor.LookName("rates"))
		w.get(look).want(http.StatusOK, &m)
		if m.Expectation != "rates" || m.Every != 2*time.Minute || m.Connection != "globex" {
			t.Errorf("%+v", m)
		}
		w.put(look, `{"lister": "shelf", "path": "/in", "job": "report"}`).problem(http.StatusUnprocessableEntity, "definition")
		w.send("DELETE", look, "").problem(http.StatusConflict, "conflict")
		w.post(look+"/pause", "").want(http.StatusOK, nil)
		w.send("DELETE", "v1/expectations/rates", "").want(http.StatusNoContent, nil)
		w.get(look).problem(http.StatusNotFound, "not_found")
	})
}

// A visitor who may not see values sees that a file came, and not its name.
func TestArrivalsWithoutValues(t *testing.T) {
	virtual(t, nil, func(w *world) {
		w.services()
		w.keepArrival(expectation.Arrival{
			ID: "0193a000-0000-7000-8000-000000000001", Expectation: "payroll", Date: "2000-01-01", State: expectation.Incomplete, Zone: "UTC",
			Files: []expectation.File{{Name: canaryParam, Size: 7}}, Reasons: []string{canaryParam + ": it is empty"},
		})
		whole := w.get("v1/arrivals").want(http.StatusOK, nil).Body.String()
		if !strings.Contains(whole, canaryParam) {
			t.Errorf("%s", whole)
		}
		for _, user := range []string{"blind"} {
			text := w.as(user).get("v1/arrivals").want(http.StatusOK, nil).Body.String()
			var list struct{ Items []httpapi.ArrivalView }
			if strings.Contains(text, canaryParam) || json.Unmarshal([]byte(text), &list) != nil || len(list.Items) != 1 || list.Items[0].Files[0].Size != 7 {
				t.Errorf("%s: %s", user, text)
			}
		}
	})
}
