package depot_test

import (
	"testing"

	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/depot/depottest"
)

// openDir opens a depot in a directory of the test.
func openDir(t testing.TB, most int64) *depot.Directory {
	t.Helper()
	d, err := depot.Dir(t.TempDir(), &depot.DirOptions{Most: most, ForResults: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestDirectory(t *testing.T) {
	depottest.Run(t, depottest.Case{
		Open:    func(t testing.TB) depot.Depot { return openDir(t, 0) },
		Limited: func(t testing.TB, most int64) depot.Depot { return openDir(t, most) },
	})
}

func TestMemory(t *testing.T) {
	depottest.Run(t, depottest.Case{
		Open:    func(t testing.TB) depot.Depot { return new(couriertest.Depot) },
		Limited: func(t testing.TB, most int64) depot.Depot { return &couriertest.Depot{Most: most} },
	})
}

// TestObjectStore: a depot of Spool, NewObject and Listing keeps the contract.
func TestObjectStore(t *testing.T) {
	depottest.Run(t, depottest.Case{Open: func(testing.TB) depot.Depot { return new(depot.Buckets) }})
}
