package demo

import (
	"slices"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/attention"
)

// A full world has an execution in each of the states that people see, and takes seconds.
func TestOpen(t *testing.T) {
	w, err := Open(t.Context(), t.TempDir(), Options{Small: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for as, want := range map[string]string{
		"completed": "completed", "failed": "failed", "running": "running", "queued": "queued", "waiting": "waiting", "due": "scheduled", "held": "created",
		"pausing": "pausing", "cancelled": "cancelled", "large": "completed", "large failed": "failed", "items": "failed", "lost": "lost",
	} {
		x, err := w.Engine.Executions().Get(t.Context(), w.By[as])
		if err != nil {
			t.Fatal(err)
		}
		if got := x.Status(time.Now()); got != want {
			t.Errorf("%q is %s, and not %s: %v", as, got, want, x.Failure)
		}
	}
	if x, err := w.Engine.Executions().Get(t.Context(), w.By["items"]); err != nil || x.FailedItems != 1 || x.State != courier.Failed {
		t.Errorf("%+v (%v)", x, err)
	}
	list, err := attention.Read(t.Context(), attention.Of(w.Engine), attention.Reader{Sees: func(string) bool { return true }})
	if err != nil {
		t.Fatal(err)
	}
	group := slices.IndexFunc(list.Entries, func(e attention.Entry) bool { return e.Connection == "globex-ftps" })
	if group < 0 || list.Entries[group].Count != 3 || len(list.Entries[group].Jobs) != 3 || list.Entries[group].Reason != courier.ReasonLogin {
		t.Errorf("the failures of one cause are %d of %+v", group, list.Entries)
	}
}
