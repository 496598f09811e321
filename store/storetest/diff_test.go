package storetest

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

func open(*testing.T) store.Store { return memstore.New() }

func TestDiffOfEqualStores(t *testing.T) {
	for seed := range uint64(raced.Or(2, 8)) {
		synctest.Test(t, func(t *testing.T) { Diff(t, open, open, seed, 300) })
	}
}

// A planted is a store with a bug.
type planted struct {
	store.Store
	apply func(t *store.Transition)
	claim func(c *store.Claims)
	ask   func(x *courier.Execution)
	audit func(list []courier.AuditEntry) []courier.AuditEntry
}

func (p *planted) Apply(ctx context.Context, t store.Transition) error {
	if p.apply != nil {
		p.apply(&t)
	}
	return p.Store.Apply(ctx, t)
}

func (p *planted) Claim(ctx context.Context, r store.ClaimRequest) (store.Claims, error) {
	c, err := p.Store.Claim(ctx, r)
	if p.claim != nil {
		p.claim(&c)
	}
	return c, err
}

func (p *planted) Request(ctx context.Context, r store.Request) (courier.Execution, error) {
	x, err := p.Store.Request(ctx, r)
	if p.ask != nil {
		p.ask(&x)
	}
	return x, err
}

func (p *planted) Audit(ctx context.Context, f store.AuditFilter) ([]courier.AuditEntry, error) {
	list, err := p.Store.Audit(ctx, f)
	if p.audit != nil {
		list = p.audit(list)
	}
	return list, err
}

func TestDiffFindsBugs(t *testing.T) {
	for name, p := range map[string]planted{
		"a failure is forgotten":        {apply: func(t *store.Transition) { t.Failure = nil }},
		"a repeated job counts as one":  {apply: func(t *store.Transition) { t.RetryJob = false }},
		"marks are not carried":         {claim: func(c *store.Claims) { each(c, func(x *store.Claimed) { x.Counters.Reclaims = 0 }) }},
		"the lost step is not told":     {claim: func(c *store.Claims) { each(c, func(x *store.Claimed) { x.Lost = nil }) }},
		"claims come in another order":  {claim: func(c *store.Claims) { slices.Reverse(c.List) }},
		"an answer is not up to date":   {ask: func(x *courier.Execution) { x.Request = "" }},
		"a page begins one entry later": {audit: func(l []courier.AuditEntry) []courier.AuditEntry { return l[min(1, len(l)):] }},
	} {
		t.Run(name, func(t *testing.T) {
			found := false
			for seed := uint64(0); seed < 20 && !found; seed++ {
				synctest.Test(t, func(t *testing.T) {
					p.Store = memstore.New()
					found = diff(t.Context(), memstore.New(), &p, seed, 300) != nil
				})
			}
			if !found {
				t.Error("not found")
			}
		})
	}
}

func each(c *store.Claims, f func(*store.Claimed)) {
	for i := range c.List {
		f(&c.List[i])
	}
}
