package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

// TestRandomChainsUnderFaults runs random chains on three engines whose store
// fails now and then, before or after a call took effect; one of the engines is
// cut off from it in mid-run, and somebody pauses and resumes the chain. However
// that goes, the members end as a recursion over the definition says, and each
// has had one execution.
func TestRandomChainsUnderFaults(t *testing.T) {
	for seed := range uint64(raced.Or(40, 150)) {
		synctest.Test(t, func(t *testing.T) { randomChainUnderFaults(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomMembers returns members of the jobs "good" and "bad".
func randomMembers(r *rand.Rand) []chain.Member {
	var list []chain.Member
	for i := range 2 + r.IntN(14) {
		m := chain.Member{Name: fmt.Sprintf("m%d", i), Job: []string{"good", "good", "good", "bad"}[r.IntN(4)]}
		for j := range i {
			if r.IntN(4) > 0 {
				continue
			}
			d := chain.Dependency{Member: list[j].Name, RunOnFailure: r.IntN(3) == 0}
			if r.IntN(5) == 0 {
				d.RequiredStatus = courier.RequireAny
			}
			m.DependsOn = append(m.DependsOn, d)
		}
		list = append(list, m)
	}
	return list
}

// comesTo says what each member comes to, where none is ever cancelled, and how
// the chain ends.
func comesTo(list []chain.Member) (map[string]chain.MemberState, chain.State) {
	ends := make(map[string]chain.MemberState)
	minded, depended := make(map[string]bool), make(map[string]bool)
	for _, m := range list { // each depends on earlier ones only
		end := chain.MemberState(courier.Completed)
		if m.Job == "bad" {
			end = chain.MemberState(courier.Failed)
		}
		for _, d := range m.DependsOn {
			depended[d.Member] = true
			minded[d.Member] = minded[d.Member] || d.RequiredStatus != courier.RequireAny
			if ends[d.Member] != "completed" && !d.RunOnFailure && d.RequiredStatus != courier.RequireAny {
				end = chain.MemberSkipped
			}
		}
		ends[m.Name] = end
	}
	for name, end := range ends {
		if end == "failed" && (minded[name] || !depended[name]) {
			return ends, chain.Failed
		}
	}
	return ends, chain.Completed
}

// shaky is a store that fails in one of so many calls, and from an instant
// on in all.
func shaky(s store.Store, seed uint64, oneIn int, dead *bool, mu *sync.Mutex) store.Store {
	r := rand.New(rand.NewPCG(seed, 7))
	return storewrap.Intercept(s, func(ctx context.Context, c *storewrap.Call, do func(context.Context) error) error {
		mu.Lock()
		n, gone := r.IntN(2*oneIn), *dead
		mu.Unlock()
		time.Sleep(time.Duration(n+1) * 37 * time.Microsecond)
		switch {
		case gone:
			return errors.New("the store is out of reach")
		case n == 0 && c.Method != "Await":
			return errors.New("failed before it took effect")
		case n == 1 && c.Method != "Await" && c.Method != "Claim": // three lost claims are three lost workers
			_ = do(ctx)
			return errors.New("the reply was lost")
		}
		return do(ctx)
	})
}

func randomChainUnderFaults(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	s := memstore.New()
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.do", func(ctx context.Context, job *courier.Context, _ struct{}) (struct{}, error) {
		time.Sleep(time.Duration(len(job.Execution())+int(job.Execution()[35])) * time.Millisecond)
		if job.Job() == "bad" {
			return struct{}{}, errors.New("broke")
		}
		return struct{}{}, ctx.Err()
	}, nil)
	var mu sync.Mutex
	dead := make([]bool, 3)
	var engines []*engine.Engine
	for i := range dead {
		e := engine.New(shaky(s, seed*3+uint64(i), 25, &dead[i], &mu), reg, &engine.Options{Workspace: t.TempDir(), WorkspaceID: "w", Slots: 3})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		engines = append(engines, e)
	}
	direct := engine.New(s, reg, &engine.Options{Workspace: t.TempDir()})
	for _, name := range []string{"good", "bad"} {
		if _, err := direct.Jobs().Define(t.Context(), courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "demo.do"}}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	members := randomMembers(r)
	if _, err := direct.Chains().Define(t.Context(), chain.Chain{Name: "chain", Members: members}, nil); err != nil {
		t.Fatal(err)
	}
	x, err := direct.Chains().Start(t.Context(), "chain", nil)
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Duration(r.IntN(600)) * time.Millisecond)
	mu.Lock()
	dead[0] = true
	mu.Unlock()
	if _, err := direct.Chains().Pause(t.Context(), x.ID, courier.By{Actor: "ann"}); err == nil {
		time.Sleep(time.Duration(r.IntN(60)) * time.Second)
		// It may have failed or completed while it was pausing.
		if _, err := direct.Chains().Resume(t.Context(), x.ID, courier.By{Actor: "ann"}); err != nil && !errors.Is(err, courier.ErrConflict) {
			t.Error(err)
		}
	} else if !errors.Is(err, courier.ErrConflict) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if x, err = direct.Chains().Wait(ctx, x.ID); err != nil {
		t.Errorf("%v: %s", err, chainText(&x))
	}
	for _, e := range engines {
		_ = e.Stop(t.Context())
	}
	want, state := comesTo(members)
	if x.State != state {
		t.Errorf("chain is %s, want %s: %s", x.State, state, chainText(&x))
	}
	released := 0
	for _, m := range x.Members {
		if m.State != want[m.Name] {
			e, _ := direct.Executions().Get(t.Context(), m.Execution)
			t.Errorf("member %s is %s, want %s: %+v", m.Name, m.State, want[m.Name], e.Failure)
		}
		if m.Execution != "" {
			released++
			if err := storetest.CheckExecution(t.Context(), s, m.Execution); err != nil {
				t.Error(err)
			}
		}
	}
	if all, err := direct.Executions().List(t.Context(), store.Filter{}); err != nil || len(all) != released {
		t.Errorf("%d executions of %d members, %v", len(all), released, err)
	}
}
