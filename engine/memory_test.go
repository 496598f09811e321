package engine_test

import (
	"runtime"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// forgetful is a store that keeps nothing of an execution's progress, so that
// what memory grows by is the engine's.
type forgetful struct {
	store.Store
	claimed int64 // number of the last audit entry that is kept
}

func (s *forgetful) Claim(c ctx, r store.ClaimRequest) (store.Claims, error) {
	got, err := s.Store.Claim(c, r)
	for _, x := range got.List {
		s.claimed = x.Seq
	}
	return got, err
}

func (s *forgetful) Apply(c ctx, t store.Transition) error {
	if t.To == courier.Running {
		return nil
	}
	t.Seq, t.Ended = s.claimed+1, nil
	return s.Store.Apply(c, t)
}

// TestMemoryDoesNotGrowWithIterations compares the heap early and late in a
// long loop whose steps have outputs and files.
func TestMemoryDoesNotGrowWithIterations(t *testing.T) {
	const iterations, early, most = 30_000, 3_000, 1 << 20
	heap := func() uint64 {
		runtime.GC()
		runtime.GC() // what the first left in pools
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var before, after uint64
	reg := new(courier.Registry)
	type output struct {
		Path string `json:"path"`
	}
	courier.RegisterFunc(reg, "demo.a", func(_ ctx, job *courier.Context, _ struct{}) (output, error) {
		switch job.Iteration()[0] {
		case early:
			before = heap()
		case iterations - 1:
			after = heap()
		}
		return output{"some/path/of/a/file.txt"}, stepcontext.Of(job).Removed("some/path/of/a/file.txt")
	}, nil)
	e := engine.New(&forgetful{Store: memstore.New()}, reg, &engine.Options{Workspace: t.TempDir()})
	x, err := e.Run(t.Context(), courier.Job{Name: "long", Params: m{"items": nil}, Steps: []courier.StepSpec{
		{Type: "flow.foreach", Config: m{"source": "context:params.items"}},
		{Type: "demo.a"},
		{Type: "flow.end"},
	}}, &courier.EnqueueOptions{Params: m{"items": make([]int, iterations)}})
	if err != nil || x.State != courier.Completed || before == 0 {
		t.Fatal(x.State, err)
	}
	t.Logf("heap after %d iterations %d KiB, after %d %d KiB", early, before>>10, iterations, after>>10)
	if after > before+most {
		t.Errorf("the heap grew by %d KiB over %d iterations", (after-before)>>10, iterations-early)
	}
}
