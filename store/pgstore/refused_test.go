package pgstore_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
)

// within10 waits until ok, for ten seconds.
func within10(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}

// TestRefusedByTheDatabase has a server refuse what an engine writes of a step: at
// first because its role has lost a right, then because a rule forbids the row.
func TestRefusedByTheDatabase(t *testing.T) {
	u := pgtest.URL(t)
	open(t, u, nil)
	admin := dial(t, u)
	role := newRole(t, admin)
	exec(t, admin, pgstore.Grants("", pgstore.Roles{Engine: role}))
	s, err := pgstore.New(t.Context(), rolePool(t, u, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reg, log := new(courier.Registry), new(lockedbuffer.Buffer)
	courier.RegisterFunc(reg, "demo.text", func(_ context.Context, _ *courier.Context, c struct{ N int }) (struct{ Text string }, error) {
		return struct{ Text string }{strings.Repeat("x", c.N)}, nil
	}, nil)
	e := engine.New(s, reg, &engine.Options{Workspace: t.TempDir(), Log: slog.New(slog.NewTextHandler(log, nil))})
	start := func(n int) courier.ExecutionID {
		job := courier.Job{Name: "a", Steps: []courier.StepSpec{{Type: "demo.text", Config: map[string]any{"n": n}}}}
		if _, err := e.Jobs().Define(t.Context(), job, nil); err != nil {
			t.Fatal(err)
		}
		x, err := e.Enqueue(t.Context(), "a", nil)
		if err != nil {
			t.Fatal(err)
		}
		return x.ID
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.Background())

	// It may write what a claim writes, and no step attempts.
	exec(t, admin, "revoke insert on courier.execution_history from "+role+"; grant insert (execution_id, seq, at, execution_attempt, worker, state_from, state_to,"+
		" state_elapsed_us, state_reason, state_error, claimed_at, claim_waited_us, started, before_worker) on courier.execution_history to "+role)
	id := start(10)
	within10(t, "the refusal is in the health", func() bool { return len(e.Health().Refused) == 1 })
	w := e.Health().Refused[0]
	if w.Execution != id || !w.Lasting || !strings.Contains(w.Error, "permission denied for table execution_history") || !strings.Contains(w.Error, "connected as role") {
		t.Errorf("health %+v", w)
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "the store refuses progress") || !strings.Contains(text, "permission denied for table execution_history") {
		t.Errorf("log:\n%s", text)
	}
	exec(t, admin, "grant insert on courier.execution_history to "+role)
	if x, err := e.Wait(t.Context(), id); err != nil || x.State != courier.Completed {
		t.Errorf("after the grant: %s, %v", x.State, err)
	}

	exec(t, admin, "alter table courier.execution_history add constraint short check (length(outputs) < 1000)")
	id = start(2000)
	x, err := e.Wait(t.Context(), id)
	if x.State != courier.Failed || x.Failure == nil || x.Failure.Reason != courier.ReasonStore || x.Failure.Step != 0 || !strings.Contains(x.Failure.Message, `violates check constraint "short"`) {
		t.Errorf("a row that is forbidden: %s, %+v, %v", x.State, x.Failure, err)
	}
	steps, err := e.Executions().Steps(t.Context(), id)
	if err != nil || len(steps) != 1 || steps[0].State != courier.StepFailed || !strings.Contains(steps[0].Error, "short") || steps[0].Outputs != nil {
		t.Errorf("steps %+v, %v", steps, err)
	}
	if strings.Contains(log.String(), "lost") {
		t.Errorf("log:\n%s", log)
	}
}

// noise is JSON of that many bytes that can't be compressed.
func noise(n int) json.RawMessage {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + rand.N(26))
	}
	return json.RawMessage(`{"x":"` + string(text) + `"}`)
}

// TestLargeWritesDelayNoOthers writes an output of 32 MB while other executions write
// a few bytes each: none of these takes a second, or at most half as long as the large one,
// although there is but one writer.
func TestLargeWritesDelayNoOthers(t *testing.T) {
	s := open(t, pgtest.URL(t), &pgstore.Options{Writers: 1})
	if _, err := s.Save(t.Context(), store.Definition{Kind: store.Job, Name: "j", Body: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Set(t.Context(), store.LimitSetting(""), "0"); err != nil {
		t.Fatal(err)
	}
	const small = 4
	list := make([]store.NewExecution, small+1)
	for i := range list {
		list[i] = store.NewExecution{ID: courier.ExecutionID(idSource.New()), Job: "j", Version: 1, StepTypes: []string{"a"}, Queue: "q"}
	}
	if _, err := s.Enqueue(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	claims, err := s.Claim(t.Context(), store.ClaimRequest{Worker: "w", StepTypes: []string{"a"}, Queues: []string{"q"}, Max: len(list), Lease: time.Hour})
	if err != nil || len(claims.List) != len(list) {
		t.Fatalf("%d claimed, %v", len(claims.List), err)
	}
	big := noise(32 << 20)
	write := func(c *store.Claimed, seq int64, outputs json.RawMessage) time.Duration {
		began := time.Now()
		err := s.Apply(t.Context(), store.Transition{
			Execution: c.Execution.ID, Lease: c.Token, Seq: seq, To: courier.Running, Position: courier.Position{Step: 1},
			Ended: []courier.StepExecution{{Type: "a", Attempt: 1, ExecutionAttempt: 1, State: courier.StepSkipped, Outputs: outputs}},
		})
		if err != nil {
			t.Error(err)
		}
		return time.Since(began)
	}
	done := make(chan struct{})
	var long time.Duration
	go func() {
		defer close(done)
		c := &claims.List[small]
		long = write(c, c.Seq+1, big)
	}()
	var all sync.WaitGroup
	var mu sync.Mutex
	var worst time.Duration
	n := 0
	for i := range small {
		all.Go(func() {
			c := &claims.List[i]
			for seq := c.Seq + 1; ; seq++ {
				select {
				case <-done:
					return
				default:
				}
				took := write(c, seq, json.RawMessage(`{}`))
				mu.Lock()
				worst, n = max(worst, took), n+1
				mu.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d small writes beside one of 32 MB, the longest %v; that one %v", n, worst, long)
	if worst > time.Second && worst > long/2 || n < 50 {
		t.Errorf("the longest of %d small writes took %v, the large one %v", n, worst, long)
	}
}
