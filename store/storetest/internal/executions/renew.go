package executions

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/storetest/internal/storekit"
)

var renewCases = []testCase{
	{"extends_from_now", func(k *kit) {
		h := k.Start()
		k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		before := k.Get(h.ID())
		k.Pass(k.Unit)
		k.renewed("renewed again", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		x := k.Get(h.ID())
		if more := x.LeaseExpiresAt.Sub(before.LeaseExpiresAt); more < k.Unit/2 || more > long/2 {
			k.Errorf("extended by %v, want about %v", more, k.Unit)
		}
		k.Same("lease after the heartbeat", x.LeaseExpiresAt.Sub(x.HeartbeatAt), long)
	}},
	{"expired_but_not_taken_over", func(k *kit) {
		h := k.Lose(0)
		k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		k.Claimed("claim", k.ClaimRequest(5))
		h.Must(h.Finish(0))
	}},
	// Leases that ended or were taken over are missing in the result, and unchanged.
	{"lost_ones_are_missing", func(k *kit) {
		taken, done, paused, mine := k.Lose(), k.Start(), k.Start(), k.Start()
		k.Again(taken.ID())
		done.Must(done.To(courier.Completed))
		paused.Must(paused.To(courier.Paused))
		leases := []store.Lease{
			{Execution: taken.ID(), Token: taken.Token}, {Execution: done.ID(), Token: done.Token},
			{Execution: paused.ID(), Token: paused.Token}, {Execution: mine.ID(), Token: mine.Token},
			{Execution: "00000000-0000-7000-8000-000000000000", Token: mine.Token},
		}
		for _, h := range []*holder{taken, done, paused} {
			k.Unchanged("the renewal", h.ID(), func() { k.renewed("renewed", leases, mine.ID()) })
		}
	}},
	{"wrong_token_is_not_renewed", func(k *kit) {
		a, b := k.Start(), k.Start()
		k.Unchanged("a renewal with other tokens", a.ID(), func() {
			k.renewed("wrong tokens", []store.Lease{
				{Execution: a.ID(), Token: b.Token}, {Execution: a.ID()}, {Execution: a.ID(), Token: "no token"},
			})
		})
	}},
	{"operator_took_an_expired_one", func(k *kit) {
		h := k.Lose()
		k.Ask(h.ID(), courier.RequestPause)
		k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}})
	}},
	// The result has pending requests, and who made them.
	{"returns_requests", func(k *kit) {
		a, b, c := k.Start(), k.Start(), k.Start()
		k.Ask(b.ID(), courier.RequestPause)
		_, err := k.Request(k.Ctx(), store.Request{Execution: c.ID(), Kind: courier.RequestCancel, By: "bob"})
		k.OK(err)
		got := k.renewed("renewed", []store.Lease{
			{Execution: c.ID(), Token: c.Token}, {Execution: a.ID(), Token: a.Token}, {Execution: b.ID(), Token: b.Token},
		}, a.ID(), b.ID(), c.ID())
		k.Same("requests", []store.Renewed{got[a.ID()], got[b.ID()], got[c.ID()]}, []store.Renewed{
			{Execution: a.ID()},
			{Execution: b.ID(), Request: courier.RequestPause, By: "ann"},
			{Execution: c.ID(), Request: courier.RequestCancel, By: "bob"},
		})
	}},
	{"withdrawn_request_is_gone", func(k *kit) {
		h := k.Start()
		k.Ask(h.ID(), courier.RequestPause)
		k.Ask(h.ID(), courier.RequestResume)
		got := k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		k.Same("request", got[h.ID()], store.Renewed{Execution: h.ID()})
	}},
	{"nothing_to_renew", func(k *kit) {
		k.renewed("no leases", nil)
	}},
	{"writes_no_audit", func(k *kit) {
		h := k.Start()
		k.renewed("renewed", []store.Lease{{Execution: h.ID(), Token: h.Token}}, h.ID())
		k.Same("audit", storekit.Moves(k.AuditOf(h.ID())), ">queued queued>running")
		h.Must(h.Begin(0))
	}},
}

// renewed renews leases for a long time and reports when others than the wanted
// ones were extended.
func (k *kit) renewed(what string, leases []store.Lease, want ...courier.ExecutionID) map[courier.ExecutionID]store.Renewed {
	k.Helper()
	list, err := k.Renew(k.Ctx(), store.RenewRequest{Worker: "worker", Leases: leases, For: long})
	k.OK(err)
	got := make(map[courier.ExecutionID]store.Renewed)
	for _, r := range list {
		got[r.Execution] = r
	}
	if len(list) != len(want) {
		k.Errorf("%s: %s, want %v", what, storekit.Text(list), want)
	}
	for _, id := range want {
		if _, ok := got[id]; !ok {
			k.Errorf("%s: %s is missing in %s", what, id, storekit.Text(list))
		}
	}
	return got
}
