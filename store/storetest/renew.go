package storetest

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var renewCases = []testCase{
	{"extends_from_now", func(k *kit) {
		h := k.start()
		k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		until := k.get(h.id()).LeaseExpiresAt
		k.pass(k.unit)
		k.renewed("renewed again", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		if more := k.get(h.id()).LeaseExpiresAt.Sub(until); more < k.unit/2 || more > long/2 {
			k.Errorf("extended by %v, want about %v", more, k.unit)
		}
	}},
	{"expired_but_not_taken_over", func(k *kit) {
		h := k.lose(0)
		k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		k.claimed("claim", k.request(5))
		h.must(h.finish(0))
	}},
	{"lost_ones_are_missing", func(k *kit) {
		taken, done, paused, mine := k.lose(), k.start(), k.start(), k.start()
		k.again(taken.id())
		done.must(done.to(courier.Completed))
		paused.must(paused.to(courier.Paused))
		leases := []store.Lease{
			{Execution: taken.id(), Token: taken.Token}, {Execution: done.id(), Token: done.Token},
			{Execution: paused.id(), Token: paused.Token}, {Execution: mine.id(), Token: mine.Token},
			{Execution: "00000000-0000-7000-8000-000000000000", Token: mine.Token},
		}
		for _, h := range []*holder{taken, done, paused} {
			k.unchanged("the renewal", h.id(), func() { k.renewed("renewed", leases, mine.id()) })
		}
	}},
	{"wrong_token_is_not_renewed", func(k *kit) {
		a, b := k.start(), k.start()
		k.unchanged("a renewal with other tokens", a.id(), func() {
			k.renewed("wrong tokens", []store.Lease{
				{Execution: a.id(), Token: b.Token}, {Execution: a.id()}, {Execution: a.id(), Token: "no token"},
			})
		})
	}},
	{"operator_took_an_expired_one", func(k *kit) {
		h := k.lose()
		k.ask(h.id(), courier.RequestPause)
		k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}})
	}},
	{"returns_requests", func(k *kit) {
		a, b, c := k.start(), k.start(), k.start()
		k.ask(b.id(), courier.RequestPause)
		_, err := k.Request(k.ctx(), store.Request{Execution: c.id(), Kind: courier.RequestCancel, By: "bob"})
		k.ok(err)
		got := k.renewed("renewed", []store.Lease{
			{Execution: c.id(), Token: c.Token}, {Execution: a.id(), Token: a.Token}, {Execution: b.id(), Token: b.Token},
		}, a.id(), b.id(), c.id())
		k.same("requests", []store.Renewed{got[a.id()], got[b.id()], got[c.id()]}, []store.Renewed{
			{Execution: a.id()},
			{Execution: b.id(), Request: courier.RequestPause, By: "ann"},
			{Execution: c.id(), Request: courier.RequestCancel, By: "bob"},
		})
	}},
	{"withdrawn_request_is_gone", func(k *kit) {
		h := k.start()
		k.ask(h.id(), courier.RequestPause)
		k.ask(h.id(), courier.RequestResume)
		got := k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		k.same("request", got[h.id()], store.Renewed{Execution: h.id()})
	}},
	{"nothing_to_renew", func(k *kit) {
		k.renewed("no leases", nil)
	}},
	{"writes_no_audit", func(k *kit) {
		h := k.start()
		k.renewed("renewed", []store.Lease{{Execution: h.id(), Token: h.Token}}, h.id())
		k.same("audit", moves(k.audit(h.id())), ">queued queued>running")
		h.must(h.begin(0))
	}},
}

// renewed renews leases for a long time and reports when others than the wanted
// ones were extended.
func (k *kit) renewed(what string, leases []store.Lease, want ...courier.ExecutionID) map[courier.ExecutionID]store.Renewed {
	k.Helper()
	list, err := k.Renew(k.ctx(), store.RenewRequest{Worker: "worker", Leases: leases, For: long})
	k.ok(err)
	got := make(map[courier.ExecutionID]store.Renewed)
	for _, r := range list {
		got[r.Execution] = r
	}
	if len(list) != len(want) {
		k.Errorf("%s: %s, want %v", what, text(list), want)
	}
	for _, id := range want {
		if _, ok := got[id]; !ok {
			k.Errorf("%s: %s is missing in %s", what, id, text(list))
		}
	}
	return got
}
