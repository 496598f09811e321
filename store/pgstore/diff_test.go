package pgstore_test

import (
	"context"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

var (
	seedsFlag = flag.Int("seeds", raced.Or(2, 5), "how many random sequences of operations TestDiff carries out")
	seedFlag  = flag.Uint64("seed", 1, "the first of them")
)

// TestDiff compares the store with the one in memory.
func TestDiff(t *testing.T) {
	pool := newPool(t, pgtest.URL(t), pgx.QueryExecModeCacheStatement)
	for seed := *seedFlag; seed < *seedFlag+uint64(*seedsFlag); seed++ {
		t.Run(fmt.Sprint("seed_", seed), func(t *testing.T) {
			storetest.Diff(t,
				func(t *testing.T) store.Store { return patient(reopen(t, pool, nil)) },
				func(*testing.T) store.Store { return memstore.New() }, seed, 300)
		})
	}
}

// patient returns a store whose claims look again when they say that it is soon
// time to: this one may leave things to the next claim that others do at once.
func patient(s store.Store) store.Store {
	return storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		err := do(ctx)
		r, ok := c.Request.(store.ClaimRequest)
		if !ok || r.Lease < time.Minute {
			return err
		}
		for range 5 {
			got, ok := c.Result.(store.Claims)
			if err != nil || !ok || got.Next == 0 || got.Next > time.Minute {
				break
			}
			time.Sleep(got.Next)
			more := r
			more.Max -= len(got.List)
			var next store.Claims
			if next, err = s.Claim(ctx, more); err == nil {
				next.List = append(got.List, next.List...)
				c.Result = next
			}
		}
		return err
	})
}
