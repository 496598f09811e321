package depot_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/steps/steptest"
)

// running is the execution of steptest.
const running = "0198c2f0-0000-7000-8000-000000000001"

// reaching is a depot whose operations are places of the contract.
type reaching struct {
	depot.Depot
	w *steptest.World
}

func (r reaching) Create(ctx context.Context, key string) (depot.Pending, error) {
	if err := r.w.Reach("create " + key); err != nil {
		return nil, err
	}
	p, err := r.Depot.Create(ctx, key)
	return reachingPending{p, r.w, key}, err
}

func (r reaching) Open(ctx context.Context, key string) (depot.Object, error) {
	if err := r.w.Reach("open " + key); err != nil {
		return nil, err
	}
	return r.Depot.Open(ctx, key)
}

func (r reaching) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	if err := r.w.Reach("list " + prefix); err != nil {
		return nil, err
	}
	return r.Depot.List(ctx, prefix)
}

type reachingPending struct {
	depot.Pending
	w   *steptest.World
	key string
}

func (p reachingPending) Write(b []byte) (int, error) {
	if err := p.w.Reach("write " + p.key); err != nil {
		return 0, err
	}
	return p.Pending.Write(b)
}

func (p reachingPending) Commit() (depot.Info, error) {
	if err := p.w.Reach("commit " + p.key); err != nil {
		return depot.Info{}, err
	}
	return p.Pending.Commit()
}

// TestContract holds the steps against the contract for retries, with depots in memory
// that are disturbed at each operation.
func TestContract(t *testing.T) {
	medium := strings.Repeat("some content\n", 60_000)
	type m = map[string]any
	for _, c := range []struct {
		name, key string
		cfg       m
		work      map[string]string
		in, out   map[string]string
	}{
		{"fetch", "depot.fetch", nil, nil, m2("a.csv", "a", "b.csv", medium), nil},
		{"fetch into a directory", "depot.fetch", m{"output_directory": "in", "names": []string{"b.csv", "a.csv"}}, map[string]string{"in/a.csv": "of others"}, m2("a.csv", medium, "b.csv", "b", "c", "c"), nil},
		{"fetch to an allowed directory", "depot.fetch", m{"output_directory": "$R/in"}, nil, m2("a.csv", medium), nil},
		{"fetch nothing", "depot.fetch", m{"ignore_missing": true}, nil, nil, nil},
		{"keep", "depot.keep", m{"source_path": "a.csv"}, m2("a.csv", medium), nil, nil},
		{"keep again", "depot.keep", m{"source_paths": []string{"a.csv", "b.csv"}}, m2("a.csv", medium, "b.csv", "b"), nil, m2("a.csv", medium, "b.csv", "x")},
		{"keep a tree", "depot.keep", m{"source_path": "out/**", "prefix": "may"}, m2("out/a", "a", "out/b/c", medium, "out/b/d/e", ""), nil, m2("may/a", "old", "x", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var depots sync.Map // of the worlds
			steptest.Run(t, steptest.Case{
				Packages: []string{steptest.All},
				Key:      c.key,
				Setup: func(w *steptest.World) {
					d := new(couriertest.Depot)
					for name, content := range c.in {
						must(w, d.Put(depot.InputKey(running, name), content))
					}
					for name, content := range c.out {
						must(w, d.Put(depot.ResultKey(running, name), content))
					}
					for name, content := range c.work {
						w.Write(name, content)
					}
					depot.Register(w.Registry, reaching{d, w}, nil)
					cfg := m{}
					for key, value := range c.cfg {
						if text, ok := value.(string); ok {
							value = strings.ReplaceAll(text, "$R", filepath.ToSlash(w.Root))
						}
						cfg[key] = value
					}
					w.Config = cfg
					depots.Store(w, d)
				},
				State: func(w *steptest.World) string {
					d, _ := depots.Load(w)
					return contents(w, d.(depot.Depot))
				},
				Tidy:   true,
				Places: raced.Or(4, 16),
			})
		})
	}
	reg := new(courier.Registry)
	depot.Register(reg, new(couriertest.Depot), nil)
	steptest.Cover(t, reg, "depot.fetch", "depot.keep")
}

func m2(pairs ...string) map[string]string {
	all := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contents lists all files of a depot by their hashes.
func contents(t testing.TB, d depot.Depot) string {
	t.Helper()
	all, err := d.List(context.Background(), "")
	must(t, err)
	var b strings.Builder
	for _, info := range all {
		fmt.Fprintf(&b, "%s %d %s\n", info.Key, info.Size, info.SHA256)
	}
	return b.String()
}
