package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var _ chain.Store = (*Store)(nil)

func unknownChain(id courier.ChainExecutionID) error {
	return courier.Errorf(courier.ErrNotFound, "there is no chain execution %q", string(id))
}

// plans are the plans of chain executions that were used lately.
type plans struct {
	mu  sync.Mutex
	all map[courier.ChainExecutionID]*chain.Plan
}

// maxPlans is the number of plans that are kept.
const maxPlans = 256

func (p *plans) kept(id courier.ChainExecutionID) *chain.Plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.all[id]
}

// of returns the plan of a chain execution. Its text is only needed if the plan is not kept.
func (p *plans) of(id courier.ChainExecutionID, text string) (*chain.Plan, error) {
	if plan := p.kept(id); plan != nil {
		return plan, nil
	}
	var members []chain.PlannedMember
	if err := decode(&text, &members); err != nil {
		return nil, fmt.Errorf("plan of chain execution %s: %w", id, err)
	}
	plan, err := chain.NewPlan(members)
	if err != nil {
		return nil, fmt.Errorf("plan of chain execution %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || len(p.all) >= maxPlans {
		p.all = make(map[courier.ChainExecutionID]*chain.Plan)
	}
	p.all[id] = plan
	return plan, nil
}

// memberLetters are the letters of member_states. A capital letter says that a pause
// of the chain was the last request to the member.
var memberLetters = map[chain.MemberState]byte{
	chain.MemberPending: 'p', chain.MemberSkipped: 's', chain.MemberState(courier.Running): 'r', chain.MemberState(courier.Paused): 'u',
	chain.MemberState(courier.Completed): 'c', chain.MemberState(courier.Failed): 'f', chain.MemberState(courier.Cancelled): 'x',
}

var memberStates = func() map[byte]chain.MemberState {
	states := make(map[byte]chain.MemberState)
	for state, c := range memberLetters {
		states[c] = state
	}
	return states
}()

const toCapital = 'a' - 'A'

func writeMembers(s chain.Progress) string {
	b := make([]byte, len(s.Members))
	for i, m := range s.Members {
		if b[i] = memberLetters[m.State]; m.Asked {
			b[i] -= toCapital
		}
	}
	return string(b)
}

func readMembers(text string) ([]chain.MemberProgress, error) {
	list := make([]chain.MemberProgress, len(text))
	for i := range list {
		c := text[i]
		if list[i].Asked = c < 'a'; list[i].Asked {
			c += toCapital
		}
		if list[i].State = memberStates[c]; list[i].State == "" {
			return nil, fmt.Errorf("stored standing %q: unknown letter", text)
		}
	}
	return list, nil
}

// StartChains creates chain executions, all or none, in one transaction.
func (s *Store) StartChains(ctx context.Context, list []chain.NewExecution) ([]chain.Started, error) {
	if err := s.checkOpen(ctx); err != nil || len(list) == 0 {
		return nil, err
	}
	list = slices.Clone(list)
	plans := make([]*chain.Plan, len(list))
	for i := range list {
		var err error
		if plans[i], err = list[i].Plan(); err != nil {
			return nil, err
		}
	}
	var results []chain.Started
	var queues []string
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) (err error) {
			results, queues, err = s.startChains(ctx, tx, list, plans)
			return err
		})
	})
	if a, ok := errors.AsType[contractError](err); ok {
		return nil, a.error
	}
	if err != nil {
		return nil, failed("start chains", err)
	}
	s.notifyQueues(ctx, queues)
	return results, nil
}

func (s *Store) startChains(ctx context.Context, tx pgx.Tx, list []chain.NewExecution, plans []*chain.Plan) (results []chain.Started, queues []string, err error) {
	created, now, err := s.createChains(ctx, tx, list, plans)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]courier.ChainExecutionID, len(list))
	if err := s.existingChains(ctx, tx, list, created, ids); err != nil {
		return nil, nil, err
	}
	results = make([]chain.Started, len(list))
	if err := s.createMembers(ctx, tx, list, created); err != nil {
		return nil, nil, err
	}
	for i := range list {
		if !created[i] {
			continue
		}
		ids[i] = list[i].ID
		next, release := plans[i].Evaluate(plans[i].Begin(list[i].Hold))
		got, err := s.writeChain(ctx, tx, ids[i], plans[i], next, release, now, "")
		if err != nil {
			return nil, nil, err
		}
		queues = append(queues, got...)
	}
	all, err := s.chainsByID(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		n, c := &list[i], all[ids[i]]
		if c == nil {
			return nil, nil, contractError{courier.Errorf(courier.ErrNotFound, "there is no chain %q version %d", n.Chain, n.Version)}
		}
		if err := n.Conflict(c); err != nil {
			return nil, nil, contractError{err}
		}
		results[i] = chain.Started{Execution: *c, Existed: !created[i]}
	}
	slices.Sort(queues)
	return results, slices.Compact(queues), nil
}

// createChains creates the chain executions that do not exist. It reports which ones it has
// created, and the time.
func (s *Store) createChains(ctx context.Context, tx pgx.Tx, list []chain.NewExecution, plans []*chain.Plan) (created []bool, now string, err error) {
	n := len(list)
	order := make([]int, n) // always in the same order, or two lists with the same keys could wait for each other
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &list[a], &list[b]
		if c := cmp.Compare(x.KeyScope, y.KeyScope); c != 0 || x.KeyScope != "" {
			return cmp.Or(c, cmp.Compare(x.IdempotencyKey, y.IdempotencyKey), cmp.Compare(x.ID, y.ID))
		}
		return cmp.Or(cmp.Compare(x.Chain, y.Chain), cmp.Compare(x.IdempotencyKey, y.IdempotencyKey), cmp.Compare(x.ID, y.ID))
	})
	ids, chains, params, bys, keys, texts, standings := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	reruns, opts, scopes := bind.TextColumn{N: n}, bind.TextColumn{N: n}, bind.TextColumn{N: n}
	versions := make([]int32, n)
	for k, i := range order {
		c := &list[i]
		ids[k], chains[k], versions[k], params[k], bys[k], keys[k] = string(c.ID), c.Chain, int32(c.Version), string(c.Params), c.By, c.IdempotencyKey
		texts[k], standings[k] = encode(plans[i].Members()), writeMembers(plans[i].Begin(c.Hold))
		reruns.Set(k, bind.OptionalID(string(c.RerunOf)))
		opts.Set(k, options{Labels: c.Labels, Trace: c.Trace}.text())
		scopes.Set(k, c.KeyScope)
	}
	rows, err := tx.Query(ctx, s.sql("chain/create"), ids, chains, versions, params, bys, keys, texts, standings, reruns.Arg(), opts.Arg(), scopes.Arg())
	if err != nil {
		return nil, "", err
	}
	isNew := make(map[courier.ChainExecutionID]bool)
	var id string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &at}, func() error {
		isNew[courier.ChainExecutionID(id)] = true
		return nil
	})
	created = make([]bool, n)
	for i := range list {
		created[i] = isNew[list[i].ID]
		delete(isNew, list[i].ID) // the same id again exists by then
	}
	return created, at.UTC().Format(time.RFC3339Nano), err
}

// existingChains finds the ids of the chain executions that existed.
func (s *Store) existingChains(ctx context.Context, tx pgx.Tx, list []chain.NewExecution, created []bool, found []courier.ChainExecutionID) error {
	var at []int
	var ids, chains, keys, scopes []string
	for i := range list {
		if !created[i] {
			at = append(at, i)
			ids, chains = append(ids, bind.ID(string(list[i].ID))), append(chains, list[i].Chain)
			keys, scopes = append(keys, list[i].IdempotencyKey), append(scopes, list[i].KeyScope)
		}
	}
	if len(at) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, s.sql("chain/find_existing"), ids, chains, keys, scopes)
	if err != nil {
		return err
	}
	var id string
	var ord int64
	_, err = pgx.ForEachRow(rows, []any{&id, &ord}, func() error {
		found[at[ord-1]] = courier.ChainExecutionID(id)
		return nil
	})
	return err
}

// createMembers creates the members of new chain executions.
func (s *Store) createMembers(ctx context.Context, tx pgx.Tx, list []chain.NewExecution, created []bool) error {
	var chains []string
	var ords []int32
	var members []store.NewExecution
	for i := range list {
		for k := range list[i].Members {
			if created[i] {
				chains, ords, members = append(chains, string(list[i].ID)), append(ords, int32(k)), append(members, list[i].Prepared(k))
			}
		}
	}
	order := make([]int, len(members))
	names := make([]string, len(members))
	for i := range order {
		order[i], names[i] = i, members[i].Member
	}
	for from := 0; from < len(members); from += maxStatement {
		to := min(len(members), from+maxStatement)
		args := memberArgs(chains[from:to], ords[from:to], names[from:to], enqueueArgs(members, order[from:to], time.Time{}))
		durations, expected, _ := deadlinesOf(members, order[from:to])
		args = append(args, durations, expected)
		kept := make(map[string]bool, to-from)
		rows, err := tx.Query(ctx, s.sql("chain/create_members"), args...)
		if err != nil {
			return err
		}
		var id string
		var ord int32
		_, err = pgx.ForEachRow(rows, []any{&id, &ord}, func() error {
			kept[fmt.Sprint(id, ord)] = true
			return nil
		})
		if err != nil {
			return err
		}
		for i := from; i < to; i++ {
			if m := &members[i]; !kept[fmt.Sprint(chains[i], ords[i])] {
				return contractError{courier.Errorf(courier.ErrNotFound, "chain execution %s, member %q: there is no job %q version %d", chains[i], m.Member, m.Job, m.Version)}
			}
		}
	}
	return nil
}

// memberArgs returns the parameters of sql/chain/create_members.sql, made from the parameters of
// sql/enqueue/create_many.sql: ids, jobs, versions, limits, priorities, queues, types, keys,
// timeouts, params, bys, idempotency keys, delays, holds, now, first types and ids, whether the
// latest, waits.
func memberArgs(chains []string, ords []int32, names []string, e []any) []any {
	return []any{chains, ords, names, e[0], e[1], e[2], e[3], e[4], e[5], e[6], e[7], e[8], e[9], e[10], e[15], e[16], e[18]}
}

// writeChain advances a chain execution that is locked or new, and returns the queues
// in which members were released.
func (s *Store) writeChain(ctx context.Context, db querier, id courier.ChainExecutionID, plan *chain.Plan, next chain.Progress, release []int, now string, moved courier.ExecutionID) ([]string, error) {
	return query(ctx, db, scanQueue, s.sql("chain/advance"), chainWriteArgs(id, plan, next, release, now, moved)...)
}

func scanQueue(rows pgx.Rows) (q string, err error) {
	err = rows.Scan(&q)
	return q, err
}

func chainWriteArgs(id courier.ChainExecutionID, plan *chain.Plan, next chain.Progress, release []int, now string, moved courier.ExecutionID) []any {
	ords := make([]int32, len(release))
	for i, m := range release {
		ords[i] = int32(m)
	}
	return []any{string(id), string(next.State), string(next.Request), writeMembers(next), ords, now, string(moved), plan.Failed(next)}
}

// ChainExecution returns a chain execution.
func (s *Store) ChainExecution(ctx context.Context, id courier.ChainExecutionID) (chain.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return chain.Execution{}, err
	}
	all, err := s.chainsByID(ctx, s.pool, []courier.ChainExecutionID{id})
	if err != nil {
		return chain.Execution{}, failed(fmt.Sprintf("read chain execution %s", id), err)
	}
	if c := all[id]; c != nil {
		return *c, nil
	}
	return chain.Execution{}, unknownChain(id)
}

// ChainExecutions returns a page of chain executions, newest first.
func (s *Store) ChainExecutions(ctx context.Context, f chain.Filter) ([]chain.Execution, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := store.PageSize(f.Limit)
	args := []any{int64(limit)}
	filter := ""
	add := func(condition string, arg any) {
		args = append(args, arg)
		filter += fmt.Sprintf(" and "+condition, len(args))
	}
	if f.Chain != "" {
		add("d.name = $%d::text and d.kind = 'chain'", f.Chain)
	}
	if len(f.States) > 0 {
		add("c.state = any($%d::text[])", asStrings(f.States))
	}
	if f.RerunOf != "" {
		add("c.rerun_of = $%d::text::uuid", bind.ID(string(f.RerunOf)))
	}
	if f.Before != "" {
		add("c.id < $%d::text::uuid", bind.ID(string(f.Before)))
	}
	list, err := s.readChains(ctx, s.pool, s.sqlFiltered("chain/list", filter), args...)
	if err != nil {
		return nil, failed("list chain executions", err)
	}
	return list, nil
}

// chainsByID returns the chain executions that exist.
func (s *Store) chainsByID(ctx context.Context, db querier, ids []courier.ChainExecutionID) (map[courier.ChainExecutionID]*chain.Execution, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = bind.ID(string(id))
	}
	list, err := s.readChains(ctx, db, s.sql("chain/get_many"), texts)
	if err != nil {
		return nil, err
	}
	all := make(map[courier.ChainExecutionID]*chain.Execution, len(list))
	for i := range list {
		all[list[i].ID] = &list[i]
	}
	return all, nil
}

// readChains reads chain executions with their members.
func (s *Store) readChains(ctx context.Context, db querier, sql string, args ...any) ([]chain.Execution, error) {
	rows, err := query(ctx, db, s.scanChainRow, sql, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	ids := make([]string, len(rows))
	latest := make(map[courier.ChainExecutionID]map[int]*courier.Execution, len(rows))
	for i := range rows {
		ids[i], latest[rows[i].id] = string(rows[i].id), make(map[int]*courier.Execution)
	}
	_, err = query(ctx, db, func(r pgx.Rows) (none struct{}, err error) {
		var id string
		var ord int
		var x courier.Execution
		var failure *string
		if err = r.Scan(&id, &ord, &x.ID, &x.State, &failure); err == nil {
			err = decode(failure, &x.Failure)
		}
		if err == nil {
			latest[courier.ChainExecutionID(id)][ord] = &x
		}
		return none, err
	}, s.sql("chain/list_member_executions"), ids)
	if err != nil {
		return nil, err
	}
	list := make([]chain.Execution, len(rows))
	for i := range rows {
		c := &rows[i]
		list[i] = c.plan.View(c.execution, c.standing, func(m int) *courier.Execution { return latest[c.id][m] })
	}
	return list, nil
}

// A chainRow is a row of chain_executions.
type chainRow struct {
	id        courier.ChainExecutionID
	execution chain.Execution // only if it was read to be shown
	plan      *chain.Plan
	standing  chain.Progress
	member    string // the name of the member that it was locked for
}

func (s *Store) scanChainRow(rows pgx.Rows) (c chainRow, err error) {
	var id, state, request, standing, plan string
	var params, kept *string
	var started, ended *time.Time
	x := &c.execution
	err = rows.Scan(&id, &x.Chain, &x.Version, &x.By, &x.IdempotencyKey, &x.KeyScope, &x.CreatedAt, &started, &ended, &state, &request, &standing, &plan, &x.RerunOf, &kept, &params)
	if err == nil {
		c.id, x.ID = courier.ChainExecutionID(id), courier.ChainExecutionID(id)
		x.Params, x.CreatedAt, x.StartedAt, x.EndedAt = raw(params), x.CreatedAt.UTC(), instant(started), instant(ended)
		var o options
		err = errors.Join(s.completeChain(&c, state, request, standing, plan), decode(kept, &o))
		x.Labels, x.Trace = o.Labels, o.Trace
	}
	return c, err
}

// scanChain reads a row of the statements that lock a chain execution. Without a row
// it returns pgx.ErrNoRows.
func (s *Store) scanChain(row pgx.Row) (*chainRow, error) {
	var c chainRow
	var id, state, request, standing, plan string
	if err := row.Scan(&id, &state, &request, &standing, &plan, &c.member); err != nil {
		return nil, err
	}
	c.id = courier.ChainExecutionID(id)
	return &c, s.completeChain(&c, state, request, standing, plan)
}

func (s *Store) completeChain(c *chainRow, state, request, standing, plan string) (err error) {
	c.standing.State, c.standing.Request = chain.State(state), courier.RequestKind(request)
	if c.standing.Members, err = readMembers(standing); err == nil && plan != "" {
		c.plan, err = s.plans.of(c.id, plan)
	}
	return err
}
