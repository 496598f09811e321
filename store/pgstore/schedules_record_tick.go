package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// A dueRow is a row of sql/schedule/lease_due.sql.
type dueRow struct {
	scheduleRow
	definition, latest int32
	outcomes           []string // id and state
}

// maxDue is how many schedules are leased at once.
const maxDue = 1000

// DueSchedules leases due schedules.
func (s *Store) DueSchedules(ctx context.Context, limit int, lease time.Duration) (schedule.DueList, error) {
	if err := s.checkOpen(ctx); err != nil {
		return schedule.DueList{}, err
	}
	d := schedule.DueList{Mark: s.notifier.Schedules.Mark()}
	var wait int64
	rows, err := query(ctx, s.pool, func(rows pgx.Rows) (r dueRow, err error) {
		fields := append([]any{&d.Now, &wait}, r.fields()...)
		return r, rows.Scan(append(fields, &r.definition, &r.latest, &r.outcomes)...)
	}, s.sql("schedule/lease_due"), int64(min(limit, maxDue)), micros(lease))
	if err != nil {
		return schedule.DueList{}, failed("lease due schedules", err)
	}
	d.Now, d.Next = d.Now.UTC(), time.Duration(wait)*time.Microsecond
	definitions, err := s.latestOf(ctx, rows)
	if err != nil {
		return schedule.DueList{}, err
	}
	for i := range rows {
		r := &rows[i]
		if r.name == nil {
			continue
		}
		due := schedule.Due{Record: r.schedule(), Outcomes: make(map[courier.ExecutionID]courier.State, len(r.outcomes))}
		if def, ok := definitions[versionOf{r.definition, r.latest}]; ok {
			due.Definition = &def
		}
		for _, o := range r.outcomes {
			id, state, _ := strings.Cut(o, " ")
			due.Outcomes[courier.ExecutionID(id)] = courier.State(state)
		}
		d.List = append(d.List, due)
	}
	return d, nil
}

// latestOf returns the definitions that due schedules start. It loads those that are not in the
// store's cache in one query.
func (s *Store) latestOf(ctx context.Context, rows []dueRow) (map[versionOf]store.Definition, error) {
	found := make(map[versionOf]store.Definition)
	asked := make(map[versionOf]bool)
	var ids, versions []int32
	c := &s.definitions
	c.mu.Lock()
	for i := range rows {
		key := versionOf{rows[i].definition, rows[i].latest}
		if d, ok := c.versions[key]; ok {
			found[key] = d
		} else if key.version > 0 && !asked[key] {
			asked[key] = true
			ids, versions = append(ids, key.id), append(versions, key.version)
		}
	}
	c.mu.Unlock()
	if len(ids) == 0 {
		return found, nil
	}
	_, err := query(ctx, s.pool, func(rows pgx.Rows) (none struct{}, err error) {
		var key versionOf
		var d store.Definition
		var body string
		err = rows.Scan(&key.id, &key.version, &d.Kind, &d.Name, &body, &d.By, &d.SavedAt)
		d.Version, d.Body, d.SavedAt = int(key.version), json.RawMessage(body), d.SavedAt.UTC()
		found[key] = d
		return none, err
	}, s.sql("definition/load_many"), ids, versions)
	if err != nil {
		return nil, failed("load the definitions of schedules", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range asked {
		if len(c.versions) >= maxDefinitions || c.versions == nil {
			c.versions = make(map[versionOf]store.Definition)
		}
		if d, ok := found[key]; ok {
			c.versions[key] = d
		}
	}
	return found, nil
}

// FireSchedules carries firings out, in one transaction.
func (s *Store) FireSchedules(ctx context.Context, list []schedule.Firing) ([]schedule.Fired, error) {
	if err := s.checkOpen(ctx); err != nil || len(list) == 0 {
		return nil, err
	}
	refused := make(map[int]error)
	for {
		f := &firings{s: s, list: list, refused: refused}
		found := len(refused)
		err := repeat(ctx, func() error {
			return s.pool.inTransaction(ctx, func(tx pgx.Tx) error { return f.fire(ctx, tx) })
		})
		if errors.Is(err, errRefused) && len(refused) > found {
			continue // without those
		}
		if err != nil {
			return nil, failed("fire schedules", err)
		}
		for i, err := range refused {
			f.results[i] = schedule.Fired{Err: err}
		}
		waits := false
		for i := range f.results {
			waits = waits || len(waitingOf(f.list[i].Executions, f.results[i].Executions)) > 0
			s.notifyEnqueued(f.results[i].Executions)
		}
		if waits {
			s.releaseWaiting(ctx)
		}
		if f.freed {
			s.slotFreed()
		}
		s.notifyQueues(ctx, f.released)
		return f.results, nil
	}
}

// errRefused is the error of a transaction that was rolled back because some of its
// firings can't be carried out.
var errRefused = errors.New("some firings can't be carried out")

// firings are the firings of one call.
type firings struct {
	s       *Store
	list    []schedule.Firing
	refused map[int]error // the firings of the list that can't be carried out
	results []schedule.Fired
	freed   bool // a slot is free
	// The queues of members of chains that a cancel has released.
	released []string
}

// fire carries out the firings whose schedules have not changed.
func (f *firings) fire(ctx context.Context, tx pgx.Tx) error {
	f.results, f.freed, f.released = make([]schedule.Fired, len(f.list)), false, nil
	names := make([]string, len(f.list))
	for i := range f.list {
		names[i] = f.list[i].Schedule
	}
	locked, err := f.s.lockSchedules(ctx, tx, names)
	if err != nil {
		return err
	}
	var valid []int // indexes of the list
	for i := range f.list {
		l, ok := locked[f.list[i].Schedule]
		if ok && l.revision == f.list[i].Revision && f.refused[i] == nil {
			valid = append(valid, i)
		}
	}
	if len(valid) == 0 {
		return nil
	}
	if err := f.enqueue(ctx, tx, valid); err != nil {
		return err
	}
	if err := f.startChains(ctx, tx, valid); err != nil {
		return err
	}
	if err := f.cancel(ctx, tx, valid, locked); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, f.s.sql("schedule/record_tick"), f.args(valid)...)
	return err
}

// enqueue creates the executions of firings.
func (f *firings) enqueue(ctx context.Context, tx pgx.Tx, valid []int) error {
	var all []store.NewExecution
	var of []int // the firing of each
	for _, i := range valid {
		f.results[i].Done = true
		for _, n := range f.list[i].Executions {
			n.Latest = false // the definition came with the due schedule
			all, of = append(all, n), append(of, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	got, notCreated, err := f.s.create(ctx, tx, all, nil)
	if err != nil {
		return err
	}
	there, err := f.s.existing(ctx, tx, all, notCreated)
	if err != nil {
		return err
	}
	bad := false
	for _, k := range notCreated {
		n, x := &all[k], there[k]
		if err := conflict(n, x); err != nil {
			f.refused[of[k]], bad = err, true
			continue
		}
		got[k] = store.Enqueued{Execution: *x, Existed: true}
	}
	for k := range all {
		if got[k].Existed || f.refused[of[k]] != nil {
			continue
		}
		err := f.s.checkDependencies(ctx, tx, all[k:k+1], nil)
		if a, ok := errors.AsType[contractError](err); ok {
			f.refused[of[k]], bad = a.error, true
		} else if err != nil {
			return err
		}
	}
	if bad {
		return errRefused
	}
	for k := range all {
		r := &f.results[of[k]]
		r.Executions = append(r.Executions, got[k])
	}
	return nil
}

// cancel requests the cancellation of the executions that the schedules replace, in
// the order of their ids.
func (f *firings) cancel(ctx context.Context, tx pgx.Tx, valid []int, locked map[string]lockedSchedule) error {
	if err := f.cancelChains(ctx, tx, valid, locked); err != nil {
		return err
	}
	var requests []store.Request
	for _, i := range valid {
		if locked[f.list[i].Schedule].kind != store.Job {
			continue
		}
		for _, id := range f.list[i].Cancel {
			requests = append(requests, store.Request{Execution: id, Kind: courier.RequestCancel, By: f.list[i].By})
		}
	}
	slices.SortFunc(requests, func(a, b store.Request) int { return cmp.Compare(a.Execution, b.Execution) })
	for _, r := range requests {
		asked, err := f.s.request(ctx, tx, r, store.Ends)
		if _, ok := errors.AsType[contractError](err); ok {
			continue // it does not exist, or has ended
		}
		if err != nil {
			return fmt.Errorf("cancel execution %s: %w", r.Execution, err)
		}
		f.freed = f.freed || asked.left
		f.released = append(f.released, asked.released...)
		if asked.queued {
			f.released = append(f.released, asked.x.Queue)
		}
	}
	return nil
}

// args returns the parameters of sql/schedule/record_tick.sql.
func (f *firings) args(valid []int) []any {
	n := len(valid)
	names, reasons, problems := make([]string, n), make([]string, n), make([]string, n)
	next, due, last, ran, open, moves := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	disabled, paused, waiting := make([]bool, n), make([]bool, n), make([]bool, n)
	failures, after := make([]int32, n), make([]int64, n)
	for k, i := range valid {
		st := f.list[i].Status
		st.Open = slices.Clone(st.Open)
		for j, x := range f.results[i].Executions {
			if x.Existed {
				st.Replace(f.list[i].Executions[j].ID, x.Execution.ID)
			}
		}
		for j, x := range f.results[i].Chains {
			st.Replace(courier.ExecutionID(f.list[i].Chains[j].ID), courier.ExecutionID(x.Execution.ID))
		}
		names[k], reasons[k], problems[k] = f.list[i].Schedule, st.Reason, st.Problem
		disabled[k], paused[k], waiting[k] = st.Disabled, st.Paused, st.Waiting
		next[k], due[k], last[k], open[k], moves[k] = moment(st.Next), moment(st.Due), moment(st.Last), idList(st.Open), moment(st.MovesFrom)
		if st.LastExecution != "" {
			ran[k] = bind.ID(string(st.LastExecution))
		}
		failures[k], after[k] = int32(st.Failures), micros(f.list[i].After)
	}
	return []any{names, disabled, paused, waiting, failures, reasons, problems, next, due, last, ran, open, after, moves}
}

// startChains starts the chain executions of firings, except those that already exist.
func (f *firings) startChains(ctx context.Context, tx pgx.Tx, valid []int) error {
	var all []chain.NewExecution
	var of []int // the firing of each
	for _, i := range valid {
		for _, n := range f.list[i].Chains {
			all, of = append(all, n), append(of, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	started, queues, refused, err := f.s.startUnused(ctx, tx, all)
	if err != nil {
		return err
	}
	for k, err := range refused {
		f.refused[of[k]] = err
	}
	if len(refused) > 0 {
		return errRefused
	}
	f.released = append(f.released, queues...)
	for k := range all {
		r := &f.results[of[k]]
		r.Chains = append(r.Chains, started[k])
	}
	return nil
}

// startUnused starts chain executions, except those that already exist under their id or
// idempotency key. These are not conflicts, whatever their params. Wrong has the reasons why some
// can't be started. In that case the transaction must not commit.
func (s *Store) startUnused(ctx context.Context, tx pgx.Tx, list []chain.NewExecution) (started []chain.Started, queues []string, refused map[int]error, err error) {
	if started, err = s.startedBefore(ctx, tx, list); err != nil {
		return nil, nil, nil, err
	}
	refused = make(map[int]error)
	for i := range list {
		if c := &started[i].Execution; started[i].Existed {
			if c.Chain != list[i].Chain {
				refused[i] = courier.Errorf(courier.ErrConflict, "chain execution %s exists for chain %q", c.ID, c.Chain)
			}
			continue
		}
		results, released, err := s.startOne(ctx, tx, list[i])
		if a, ok := errors.AsType[contractError](err); ok {
			refused[i] = a.error
			continue
		}
		if err != nil {
			return nil, nil, nil, err
		}
		started[i] = results[0]
		queues = append(queues, released...)
	}
	slices.Sort(queues)
	return started, slices.Compact(queues), refused, nil
}

func (s *Store) startOne(ctx context.Context, tx pgx.Tx, n chain.NewExecution) ([]chain.Started, []string, error) {
	plan, err := n.Plan()
	if err != nil {
		return nil, nil, contractError{err}
	}
	return s.startChains(ctx, tx, []chain.NewExecution{n}, []*chain.Plan{plan})
}

// startedBefore returns the chain executions that already exist.
func (s *Store) startedBefore(ctx context.Context, tx pgx.Tx, list []chain.NewExecution) ([]chain.Started, error) {
	found := make([]courier.ChainExecutionID, len(list))
	if err := s.existingChains(ctx, tx, list, make([]bool, len(list)), found); err != nil {
		return nil, err
	}
	ids := slices.DeleteFunc(slices.Clone(found), func(id courier.ChainExecutionID) bool { return id == "" })
	started := make([]chain.Started, len(list))
	if len(ids) == 0 {
		return started, nil
	}
	all, err := s.chainsByID(ctx, tx, ids)
	for i, id := range found {
		if c := all[id]; c != nil {
			started[i] = chain.Started{Execution: *c, Existed: true}
		}
	}
	return started, err
}

// cancelChains requests the cancel of the chain executions that the schedules replace, in the order
// of their ids.
func (f *firings) cancelChains(ctx context.Context, tx pgx.Tx, valid []int, locked map[string]lockedSchedule) error {
	var requests []chain.Request
	for _, i := range valid {
		if locked[f.list[i].Schedule].kind != store.Chain {
			continue
		}
		for _, id := range f.list[i].Cancel {
			requests = append(requests, chain.Request{Chain: courier.ChainExecutionID(id), Kind: courier.RequestCancel, By: f.list[i].By})
		}
	}
	slices.SortFunc(requests, func(a, b chain.Request) int { return cmp.Compare(a.Chain, b.Chain) })
	for k := range requests {
		a := chainAsk{s: f.s, r: &requests[k], unended: true}
		err := a.carryOut(ctx, tx)
		if _, ok := errors.AsType[contractError](err); ok {
			continue // it does not exist, or has ended
		}
		if err != nil {
			return fmt.Errorf("cancel chain execution %s: %w", requests[k].Chain, err)
		}
		f.freed = f.freed || a.freed
		f.released = append(f.released, a.queues...)
	}
	return nil
}
