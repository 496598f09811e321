package httpapi_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/bulk"
)

// A rerun is of who has asked for it: with other parameters it results in what is not for
// the one who has started the first execution.
func TestRerunIsOfWhoAsks(t *testing.T) {
	virtual(t, nil, func(w *world) {
		ann, otto := w.as("ann"), w.as("otto")
		id := ann.start("report", `{"params": {"text": "ann's"}, "labels": {"partner": "acme"}}`)
		w.ended(id)
		var again httpapi.Started
		otto.post("v1/executions/"+id+"/rerun", `{"params": {"text": "otto's secret"}}`).want(http.StatusAccepted, &again)
		var out bulk.Outcome
		otto.post("v1/bulk", `{"action": "rerun", "key": "k", "ids": ["`+id+`"]}`).want(http.StatusOK, &out)
		if len(out.Results) != 1 || out.Done != 1 {
			t.Fatalf("%+v", out)
		}
		byGo, err := w.engine.Rerun(w.Context(), courier.ExecutionID(id), &engine.RerunOptions{Labels: map[string]string{"day": "1"}})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			rerun  courier.ExecutionID
			labels map[string]string
		}{
			{again.ID, map[string]string{"by": "otto", "partner": "acme"}},
			{out.Results[0].Started, map[string]string{"by": "otto", "partner": "acme"}},
			{byGo.ID, map[string]string{"day": "1", "partner": "acme"}},
		} {
			if x := w.ended(string(c.rerun)); !maps.Equal(x.Labels, c.labels) {
				t.Errorf("labels %v; want %v", x.Labels, c.labels)
			}
			ann.get("v1/executions/"+string(c.rerun)).problem(http.StatusNotFound, "not_found")
			if a := ann.get("v1/executions"); strings.Contains(a.Body.String(), string(c.rerun)) {
				t.Errorf("ann sees a rerun of hers by another one: %s", a.Body)
			}
		}
		ann.get("v1/executions/"+id).want(http.StatusOK, nil)
	})
}
