package pgstore_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// rowOf is a chain execution whose members depend on each other in rows: the
// first ones on none, each of the others on the one that stands so many before.
func rowOf(t testing.TB, s *pgstore.Store, members, rows int) chain.NewExecution {
	t.Helper()
	for kind, name := range map[store.Kind]string{store.Job: "j", store.Chain: "c"} {
		if _, err := s.Save(t.Context(), store.Definition{Kind: kind, Name: name, Body: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	n := chain.NewExecution{ID: courier.ChainExecutionID(idSource.New()), Chain: "c", Version: 1}
	for i := range members {
		m := chain.NewMember{Name: fmt.Sprintf("m%d", i), Execution: store.NewExecution{
			ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, Queue: "default", StepTypes: []string{"x"},
		}}
		if i >= rows {
			m.DependsOn = []chain.Dependency{{Member: fmt.Sprintf("m%d", i-rows)}}
		}
		n.Members = append(n.Members, m)
	}
	return n
}

func startOne(t testing.TB, s *pgstore.Store, n chain.NewExecution) {
	t.Helper()
	if _, err := s.StartChains(t.Context(), []chain.NewExecution{n}); err != nil {
		t.Fatal(err)
	}
}

// claimAll claims what there is.
func claimAll(t testing.TB, s *pgstore.Store) []store.Claimed {
	t.Helper()
	got, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: []string{"x"}, Queues: []string{"default"}, Max: 64, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return got.List
}

func endOf(c *store.Claimed, to courier.State) store.Transition {
	return store.Transition{Execution: c.Execution.ID, Chain: c.Execution.Chain, Lease: c.Token, Seq: c.Seq + 1, To: to}
}

// trips counts the round trips of a pool: queries and batches, without those of probes, which
// are made beside claims that seem slow.
type trips struct{ n atomic.Int64 }

func (c *trips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(d.SQL, "/* courier: claim/find_passed_over */") {
		c.n.Add(1)
	}
	return ctx
}
func (*trips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}
func (c *trips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.n.Add(1)
	return ctx
}
func (*trips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*trips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// TestChainRoundTrips counts the round trips of a long chain: writing the end of
// a member takes one more than that of any other execution, and so does nothing
// else.
func TestChainRoundTrips(t *testing.T) {
	members := raced.Or(200, 1000)
	u := pgtest.URL(t)
	open(t, u, nil)
	counted := new(trips)
	pool := dialWith(t, u, func(c *pgx.ConnConfig) { c.Tracer = counted })
	s, err := pgstore.New(t.Context(), pool, &pgstore.Options{PollOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	// How many it takes for what is no member.
	alone := rowOf(t, s, 10, 10)
	var list []store.NewExecution
	for _, m := range alone.Members {
		list = append(list, m.Execution)
	}
	if _, err := s.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	apply := func(of []store.Claimed) (n int64) {
		t.Helper()
		before := counted.n.Load()
		for i := range of {
			if err := s.Apply(t.Context(), endOf(&of[i], courier.Completed)); err != nil {
				t.Fatal(err)
			}
		}
		return counted.n.Load() - before
	}
	if got := apply(claimAll(t, s)); got != 10 {
		t.Fatalf("10 executions ended in %d round trips", got)
	}
	n := rowOf(t, s, members, 20)
	before := counted.n.Load()
	startOne(t, s, n)
	if got := counted.n.Load() - before; got > 10 {
		t.Errorf("a start took %d round trips", got)
	}
	started := time.Now()
	ended, writes := 0, int64(0)
	for ended < members {
		got := claimAll(t, s)
		if len(got) == 0 {
			t.Fatalf("nothing to claim after %d members", ended)
		}
		writes += apply(got)
		ended += len(got)
	}
	t.Logf("%d members in %v, %.2f round trips for the end of each", members, time.Since(started), float64(writes)/float64(members))
	if writes > 2*int64(members)+10 {
		t.Errorf("the ends of %d members took %d round trips, want 2 each", members, writes)
	}
	x, err := s.ChainExecution(t.Context(), n.ID)
	if err != nil || x.State != chain.Completed {
		t.Errorf("chain is %s, %v", x.State, err)
	}
}

// TestChainsRollBack has the end of a member fail with what follows from it, and
// checks that nothing of either is left.
func TestChainsRollBack(t *testing.T) {
	u := pgtest.URL(t)
	s, admin := open(t, u, nil), dial(t, u)
	n := rowOf(t, s, 2, 1)
	startOne(t, s, n)
	c := claimAll(t, s)[0]
	// What the member behind it would be called is taken.
	taken := n.Members[1].Execution
	if _, err := s.Enqueue(t.Context(), []store.NewExecution{taken}); err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(t.Context(), endOf(&c, courier.Completed)); !errors.Is(err, courier.ErrInvalid) {
		t.Fatalf("error %v", err)
	}
	x, err := s.Execution(t.Context(), c.Execution.ID)
	if err != nil || x.State != courier.Running {
		t.Errorf("execution is %s, %v", x.State, err)
	}
	k, err := s.ChainExecution(t.Context(), n.ID)
	if err != nil || k.State != chain.Running || k.Members[1].State != chain.MemberPending {
		t.Errorf("chain %+v, %v", k, err)
	}
	exec(t, admin, "begin; set local courier.retention = 'on'; delete from courier.execution_history where execution_id = '"+string(taken.ID)+
		"'; delete from courier.job_executions where id = '"+string(taken.ID)+"'; commit")
	if err := s.Apply(t.Context(), endOf(&c, courier.Completed)); err != nil {
		t.Errorf("again: %v", err)
	}
}

// TestRetainChains checks that members stay while their chain execution goes on,
// and that it goes with the last of them.
func TestRetainChains(t *testing.T) {
	u := pgtest.URL(t)
	s, admin := open(t, u, nil), dial(t, u)
	all := pgstore.Retention{MaxAge: time.Microsecond}
	start := func(hold bool) courier.ChainExecutionID {
		n := rowOf(t, s, 2, 1)
		n.Hold = hold
		startOne(t, s, n)
		return n.ID
	}
	end := func(to courier.State) {
		t.Helper()
		list := claimAll(t, s)
		if len(list) != 1 {
			t.Fatalf("claimed %d", len(list))
		}
		if err := s.Apply(t.Context(), endOf(&list[0], to)); err != nil {
			t.Fatal(err)
		}
	}
	retain := func(r pgstore.Retention, removed int64, chains ...courier.ChainExecutionID) {
		t.Helper()
		time.Sleep(time.Millisecond)
		n, err := s.Retain(t.Context(), r)
		if err != nil || n != removed {
			t.Errorf("removed %d, %v, want %d", n, err, removed)
		}
		list, err := s.ChainExecutions(t.Context(), chain.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		var left []courier.ChainExecutionID
		for _, c := range list {
			left = append(left, c.ID)
		}
		slices.SortFunc(chains, func(a, b courier.ChainExecutionID) int { return cmp.Compare(b, a) })
		if !slices.Equal(left, chains) {
			t.Errorf("chain executions %v are left, want %v", left, chains)
		}
	}
	running := start(false)
	end(courier.Completed)
	retain(all, 0, running)
	end(courier.Completed)
	retain(all, 2)

	failed := start(false)
	end(courier.Failed)
	retain(all, 0, failed)
	held := start(true)
	cancelled := start(true)
	if _, _, err := s.RequestChain(t.Context(), chain.Request{Chain: cancelled, Kind: courier.RequestCancel}); err != nil {
		t.Fatal(err)
	}
	retain(pgstore.Retention{MaxCount: 1}, 0, failed, held, cancelled)
	retain(all, 0, failed, held)
	withFailed := all
	withFailed.Failed = true
	retain(withFailed, 1, held)
	if n := value[int](t, admin, "select count(*) from courier.chain_members where chain_execution_id not in (select id from courier.chain_executions)"); n != 0 {
		t.Errorf("%d members of chain executions that are gone are left", n)
	}
}

// TestRetryAfterRetention retries a chain whose failed member's execution
// is gone: it gets a new one.
func TestRetryAfterRetention(t *testing.T) {
	u := pgtest.URL(t)
	s, admin := open(t, u, nil), dial(t, u)
	n := rowOf(t, s, 2, 2)
	startOne(t, s, n)
	for i, c := range claimAll(t, s) {
		if err := s.Apply(t.Context(), endOf(&c, []courier.State{courier.Completed, courier.Failed}[i])); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, admin, "begin; set local courier.retention = 'on'; delete from courier.execution_history; delete from courier.job_executions; commit")
	r := chain.Request{Chain: n.ID, Kind: courier.RequestRetry, IDs: []courier.ExecutionID{courier.ExecutionID(idSource.New()), courier.ExecutionID(idSource.New())}}
	x, _, err := s.RequestChain(t.Context(), r)
	if err != nil || x.State != chain.Running || x.Members[0].State != "completed" || x.Members[1].State != "queued" || x.Members[1].Execution != r.IDs[1] {
		t.Errorf("chain %+v, %v", x, err)
	}
}
