package desk_test

import (
	"context"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

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
