package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store"
)

// keeps has an ended execution keep files.
func (w *world) keeps(id string, files courier.OnlyCopies) {
	w.Helper()
	w.ended(id)
	r := store.Request{Execution: courier.ExecutionID(id), Kind: store.RequestFound, Found: &store.Found{Workspace: "disk of another", OnlyCopies: files}}
	if _, err := w.store.Request(w.Context(), r); err != nil {
		w.Fatal(err)
	}
}

// Kept files are listed for who may see the job, and discarded by name, with a reason, which the
// journal has.
func TestKeptFiles(t *testing.T) {
	type list struct {
		Items []store.KeptFiles `json:"items"`
		Next  string            `json:"next"`
	}
	virtual(t, nil, func(w *world) {
		id, hidden := w.start("report", `{"params": {"text": "a"}}`), w.start("hidden", "")
		w.keeps(id, courier.OnlyCopies{Files: []courier.File{{Path: "a.csv", Size: 1}, {Path: "b.csv", Size: 2}}, Count: 2, Bytes: 3})
		w.keeps(hidden, courier.OnlyCopies{Files: []courier.File{{Path: "h.csv", Size: 1}}, Count: 1, Bytes: 1})
		var got list
		for user, n := range map[string]int{"admin": 2, "watcher": 2, "vera": 1, "ann": 0, "nobody": 0} {
			got = list{}
			w.as(user).get("v1/kept-files").want(http.StatusOK, &got)
			if len(got.Items) != n || n == 1 && (len(got.Items[0].Files) != 2 || string(got.Items[0].Execution) != id || got.Items[0].Workspace != "disk of another") {
				t.Errorf("%s: %+v", user, got)
			}
		}
		got = list{}
		w.get("v1/kept-files?limit=1").want(http.StatusOK, &got)
		if len(got.Items) != 1 || string(got.Items[0].Execution) != hidden || got.Next == "" {
			t.Fatalf("the first page: %+v", got)
		}
		w.get("v1/kept-files?limit=1&cursor="+got.Next).want(http.StatusOK, &got)
		if len(got.Items) != 1 || string(got.Items[0].Execution) != id {
			t.Errorf("the second page: %+v", got)
		}
		at := "v1/kept-files/" + id + "/discard"
		w.as("vera").post(at, `{"files": ["a.csv", "b.csv"], "reason": "old"}`).problem(http.StatusForbidden, "forbidden")
		otto := w.as("otto")
		otto.post(at, `{"files": ["a.csv"], "reason": "old"}`).problem(http.StatusConflict, "conflict", "shown")
		otto.post(at, `{"files": ["a.csv", "b.csv"]}`).problem(http.StatusBadRequest, "invalid", "reason")
		var x httpapi.ExecutionView
		otto.post(at, `{"files": ["a.csv", "b.csv"], "reason": "nobody wants them"}`).want(http.StatusAccepted, &x)
		if x.Request != store.RequestDiscard || x.RequestedBy != "otto" {
			t.Errorf("discarded: %+v", x)
		}
		entries, err := w.engine.Journal(t.Context(), store.ActionFilter{Kind: "execution"})
		if err != nil || len(entries) == 0 || entries[0].Verb != "discard" || !strings.Contains(entries[0].Reason, "nobody wants them") || entries[0].Execution != courier.ExecutionID(id) {
			t.Errorf("journal: %+v, %v", entries, err)
		}
	})
}
