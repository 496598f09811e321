package desk_test

import (
	"context"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A desk remembers a bounded number of quotas. Those of more principals hold as well, each is
// set once, and one that changes is set again.
func TestQuotasAreBounded(t *testing.T) {
	in(t, func(w *world) {
		figure := 3
		d := desk.New(w.Engine, &desk.Options{MaxQuotas: 2, Via: "api", Access: access.Policy{Quota: func(access.Principal, string) int { return figure }}})
		users := []string{"ann", "ben", "cleo"}
		for i := range 20 {
			if i == 10 {
				figure = 4
			}
			for _, user := range users {
				var o courier.EnqueueOptions
				w.ok(d.Visitor(access.Principal{ID: user}).Charge(context.Background(), "other", &o))
				if len(o.LimitKeys) != 1 || o.LimitKeys[0] != store.UserLimitKey+user+"/other" {
					t.Fatalf("%q", o.LimitKeys)
				}
			}
		}
		for _, user := range users {
			list, err := w.Engine.Journal(w.Context(), store.ActionFilter{Kind: "limit", Name: "key:user:" + user + "/other"})
			if err != nil || len(list) != 2 || string(list[0].Now) != "4" || string(list[1].Now) != "3" {
				t.Errorf("%s: %+v, %v", user, list, err)
			}
		}
	})
}
