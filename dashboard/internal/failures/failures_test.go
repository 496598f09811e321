package failures

import (
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/advice"
)

// A world has ten things that are wrong, none of which is repaired, and nothing else.
func TestOpen(t *testing.T) {
	w := open(t)
	if len(w.List) != 10 {
		t.Errorf("%d things are wrong, and not 10", len(w.List))
	}
	for _, f := range w.List {
		if ok, text := f.Repaired(t.Context()); ok || text == "" {
			t.Errorf("%s is repaired: %v: %s", f.Name, ok, text)
		}
	}
	for failure, want := range map[string]struct {
		status string
		reason courier.Reason
	}{
		"host-key": {"failed", courier.ReasonLogin}, "full-limit": {"queued", ""}, "queue": {"queued", ""}, "lost-worker": {"lost", ""},
		"poison-file": {"failed", courier.ReasonIntegrity}, "stuck-step": {"running", ""}, "missing-secret": {"failed", courier.ReasonSecret},
		"partner-down": {"failed", courier.ReasonConnection},
	} {
		x, err := w.Engine.Executions().Get(t.Context(), w.planted[failure])
		if err != nil {
			t.Fatal(err)
		}
		var reason courier.Reason
		message := ""
		if x.Failure != nil {
			reason, message = x.Failure.Reason, x.Failure.Message
		}
		t.Logf("%s: %s %s", failure, advice.Status(&x, time.Now()), message)
		if got := x.Status(time.Now()); got != want.status || reason != want.reason {
			t.Errorf("%s is %s for %q, and not %s for %q", failure, got, reason, want.status, want.reason)
		}
	}
}

func open(t *testing.T) *World {
	t.Helper()
	w, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}
