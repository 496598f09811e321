package dashboard_test

import (
	"net/http"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// Kept files are listed with names, sizes, workspace and what the steps have removed elsewhere.
// They are discarded by a form that lists them and asks for a reason.
func TestKeptFiles(t *testing.T) {
	virtual(t, nil, func(w *world) {
		x := w.ended("report", "ann", nil)
		r := store.Request{Execution: x.ID, Kind: store.RequestFound, Found: &store.Found{
			Workspace: "disk of another", OnlyCopies: courier.OnlyCopies{Files: []courier.File{{Path: "a <b>.csv", Size: 2048}}, Count: 1, Bytes: 2048},
		}}
		if _, err := w.store.Request(w.Context(), r); err != nil {
			w.Fatal(err)
		}
		w.get("").has("1 execution has ended and keeps 1 file").has("a <b>.csv (2048 bytes)").has("disk of another")
		w.get("kept-files").has("a <b>.csv").has("disk of another").has("Discard…")
		w.user = "nobody"
		w.get("kept-files").has("No files are kept.").lacks("csv")
		w.user = "vera"
		w.get("kept-files").has("a <b>.csv").lacks("Discard…")
		at := "kept-files/" + string(x.ID)
		w.fails(at, http.StatusForbidden)
		w.user = "otto"
		page := w.get(at).has("a <b>.csv").has("for good")
		fields := map[string]string{"do": "discard"}
		for _, in := range page.tree.all("input[type=hidden]") {
			fields[in.attrs["name"]] = in.attrs["value"]
		}
		if a := w.post(at, fields); a.Code != http.StatusBadRequest {
			t.Errorf("without a reason: %d", a.Code)
		}
		fields["reason"] = "nobody wants it"
		other := map[string]string{"do": "discard", "key": "other", "reason": "so", "file": "b.csv"}
		if a := w.post(at, other); a.Code != http.StatusConflict {
			t.Errorf("another name: %d", a.Code)
		}
		fields["key"] = "again"
		if a := w.post(at, fields); a.Code != http.StatusSeeOther {
			t.Errorf("%d %s", a.Code, a.Body)
		}
		w.get("kept-files").has("otto has discarded them").lacks("Discard…")
		w.get("").lacks("csv")
		if x, err := w.engine.Executions().Get(w.Context(), x.ID); err != nil || x.Request != store.RequestDiscard || x.RequestReason != "nobody wants it" {
			t.Errorf("%+v, %v", x, err)
		}
	})
}
