package desk_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// TestAttentionOfKeptFiles has an entry with names, sizes and workspace of what executions keep
// after their end, and none of what is being discarded.
func TestAttentionOfKeptFiles(t *testing.T) {
	in(t, func(w *world) {
		id := w.add("other", courier.EnqueueOptions{})
		c := w.claim(time.Hour, id)[0]
		files := &courier.OnlyCopies{Files: []courier.File{{Path: "in/a.csv", Size: 7}}, Count: 3, Bytes: 12, Problem: "two are odd"}
		w.ok(w.Store.Apply(w.Context(), store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Cancelled, Workspace: "disk of w", OnlyCopies: files}))
		got := w.attention()
		if len(got.Entries) != 1 || got.Entries[0].Kind != desk.Kept || got.Entries[0].Executions[0] != id || got.Entries[0].Since.IsZero() {
			t.Fatalf("entries: %+v", got.Entries)
		}
		for _, part := range []string{`Job "other": 1 execution has ended and keeps 3 files with 12 bytes`, "workspace disk of w.", "in/a.csv (7 bytes), files that could not be listed: two are odd and 1 more"} {
			if e := got.Entries[0]; !strings.Contains(e.Title+" "+e.Message, part) {
				t.Errorf("%q is not in %+v", part, e)
			}
		}
		_, err := w.Engine.DiscardKept(w.Context(), id, []string{"in/a.csv"}, courier.By{Actor: "ann", Reason: "old"})
		w.ok(err)
		if got := w.attention(); len(got.Entries) != 0 {
			t.Errorf("discarded: %+v", got.Entries)
		}
	})
}

// TestAttentionOfOwnKeptFiles has an entry of what an execution keeps whose job the visitor may
// see, though a hundred others have kept files since.
func TestAttentionOfOwnKeptFiles(t *testing.T) {
	in(t, func(w *world) {
		keep := func(job string) {
			id := w.add(job, courier.EnqueueOptions{})
			c := w.claim(time.Hour, id)[0]
			files := &courier.OnlyCopies{Files: []courier.File{{Path: "a.csv", Size: 7}}, Count: 1, Bytes: 7}
			w.ok(w.Store.Apply(w.Context(), store.Transition{Execution: id, Lease: c.Token, Seq: c.Seq + 1, To: courier.Cancelled, Workspace: "disk", OnlyCopies: files}))
		}
		keep("daily-a")
		for range 100 {
			keep("other")
		}
		d := desk.New(engine.New(w.Store, nil, nil), &desk.Options{Access: access.Policy{Role: func(_ context.Context, _ access.Principal, job string) access.Role {
			return map[string]access.Role{"daily-a": access.Viewer}[job]
		}}})
		got, err := d.Visitor(access.Principal{ID: "ann"}).Attention(w.Context())
		if err != nil || len(got.Entries) != 1 || got.Entries[0].Job != "daily-a" || got.Entries[0].More {
			t.Errorf("%+v, %v", got.Entries, err)
		}
	})
}
