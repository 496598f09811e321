package pgstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// How executions wait for other jobs.
//
// The column waits_for of a queued execution has its unmet dependencies. Claims and their index
// skip such an execution. Two events can release it: its own enqueueing, and the end of an
// execution of a job on which others depend. After the commit of either, one statement, and so one
// snapshot, compares all waiting executions with the latest ones that they wait for. Of two commits
// at the same time the later comparison sees both. No lock is needed, and nothing is lost if a
// process ends before it compares: claims release waiting executions too, when they scan the
// running ones.

// waitingQueue stands for the waiting executions in a list of changed queues: they may have to be
// released. No queue has that name.
const waitingQueue = ""

// waiting reports whether the execution is queued and waits for other jobs.
func (r *row) waiting() bool { return courier.State(r.state) == courier.Queued && len(r.waitsFor) > 0 }

// mayRelease reports whether waiting executions may have to be released after a change to this one.
// This is so if it waits itself, or if it has ended and other jobs depend on its job.
func (r *row) mayRelease() bool {
	return r.waiting() || r.hasDependents != nil && courier.State(r.state).Ended()
}

// waitTerms returns the dependencies that an execution waits for, in the form of waits_for: a
// letter for the accepted ends, and the job. Empty means none.
func waitTerms(list []courier.JobDependency) []string {
	list = store.Waiting(list)
	terms := make([]string, len(list))
	for i, d := range list {
		letter := "c"
		switch {
		case d.RequiredStatus == courier.RequireAny:
			letter = "a"
		case d.RunOnFailure:
			letter = "f"
		}
		terms[i] = letter + d.Job
	}
	return terms
}

func readTerm(term string) courier.JobDependency {
	d := courier.JobDependency{Job: term[1:], RunOnFailure: term[0] == 'f'}
	if term[0] == 'a' {
		d.RequiredStatus = courier.RequireAny
	}
	return d
}

// releaseWaiting releases the waiting executions whose dependencies are met, wakes
// the workers of their queues, and reports whether there were any. If it fails, a
// later claim does it.
func (s *Store) releaseWaiting(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	queues, err := query(ctx, s.pool, scanQueue, s.sql("dependency/release_waiting"))
	if err != nil && ctx.Err() == nil {
		s.log.Warn("release executions that wait for other jobs; the next claim does it", "error", err)
	}
	s.notifyQueues(ctx, queues)
	return len(queues) > 0
}

// waitingOf returns the indexes of the new executions that may wait.
func waitingOf(list []store.NewExecution, results []store.Enqueued) (waiting []int) {
	for i := range results {
		if !results[i].Existed && results[i].Execution.State == courier.Queued && len(store.Waiting(list[i].DependsOn)) > 0 {
			waiting = append(waiting, i)
		}
	}
	return waiting
}

// readWaits reads again the executions that may wait.
func (s *Store) readWaits(ctx context.Context, db querier, waiting []int, results []store.Enqueued) error {
	if len(waiting) == 0 {
		return nil
	}
	ids, at := make([]string, len(waiting)), make(map[string]int, len(waiting))
	for k, i := range waiting {
		ids[k] = string(results[i].Execution.ID)
		at[ids[k]] = i
	}
	rows, err := query(ctx, db, scanRow, s.sqlFiltered("execution/list", " and e.id = any($3::text[]::uuid[])"), int64(len(ids)), []string{}, ids)
	if err != nil {
		return err
	}
	list, err := s.withJobNames(ctx, db, rows)
	for k := range list {
		x := &results[at[rows[k].id]].Execution
		list[k].Params, list[k].Result, list[k].Repairs = x.Params, x.Result, x.Repairs // lists lack these
		*x = list[k]
	}
	return err
}

// addWaits sets the unmet dependencies of executions.
func (s *Store) addWaits(ctx context.Context, db querier, rows []row, list []courier.Execution) error {
	var jobs []string
	for i := range rows {
		if rows[i].waiting() {
			for _, term := range rows[i].waitsFor {
				jobs = append(jobs, readTerm(term).Job)
			}
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	latest, err := s.recent(ctx, db, jobs)
	if err != nil {
		return err
	}
	for i := range rows {
		if !rows[i].waiting() {
			continue
		}
		var on []courier.JobDependency
		for _, term := range rows[i].waitsFor {
			on = append(on, readTerm(term))
		}
		list[i].Waits = store.Unmet(on, latest)
	}
	return nil
}

// recent returns a function that returns the latest executions of jobs.
func (s *Store) recent(ctx context.Context, db querier, jobs []string) (func(job string) (courier.ExecutionID, courier.State), error) {
	type execution struct {
		id    courier.ExecutionID
		state courier.State
	}
	latest := make(map[string]execution)
	slices.Sort(jobs)
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var job, state string
		var x execution
		err = rows.Scan(&job, &x.id, &state)
		x.state = courier.State(state)
		latest[job] = x
		return none, err
	}, s.sql("dependency/list_latest_executions"), slices.Compact(jobs))
	return func(job string) (courier.ExecutionID, courier.State) { return latest[job].id, latest[job].state }, err
}

// checkDependencies returns the error of the first new execution that its dependencies refuse. Rest
// are the indexes of the executions that were not created.
func (s *Store) checkDependencies(ctx context.Context, db querier, list []store.NewExecution, notCreated []int) error {
	for i := range list {
		refusing := store.Refusing(list[i].DependsOn)
		if len(refusing) == 0 || slices.Contains(notCreated, i) {
			continue
		}
		var jobs []string
		for _, d := range refusing {
			jobs = append(jobs, d.Job)
		}
		latest, err := s.recent(ctx, db, jobs)
		if err != nil {
			return err
		}
		if waits := store.Unmet(refusing, latest); len(waits) > 0 {
			return contractError{&courier.DependencyError{Job: list[i].Job, Waits: waits}}
		}
	}
	return nil
}

// saveDependencies saves the jobs that a job depends on, and refuses a cycle.
func (s *Store) saveDependencies(ctx context.Context, tx pgx.Tx, id int32, job string, upstreams []string) error {
	if upstreams == nil {
		upstreams = []string{}
	}
	if _, err := tx.Exec(ctx, s.sql("dependency/save"), id, upstreams); err != nil || len(upstreams) == 0 {
		return err
	}
	edges := make(map[string][]string)
	_, err := query(ctx, tx, func(rows pgx.Rows) (none struct{}, err error) {
		var from, to string
		err = rows.Scan(&from, &to)
		edges[from] = append(edges[from], to)
		return none, err
	}, s.sql("dependency/list_transitive"), id)
	if err != nil {
		return err
	}
	if path := store.Cycle(job, func(name string) []string { return edges[name] }); path != nil {
		return contractError{&courier.CycleError{Path: path}}
	}
	return nil
}

// openWriterTimeout is how long Save waits for open transactions that create
// executions of a job which had no dependents before.
const openWriterTimeout = 30 * time.Second

// markUpstreams marks executions of jobs as having dependents: all new ones, and the latest
// existing one. To miss none, it waits until all transactions have ended that may create an
// execution without the mark. This happens once for each job.
func (s *Store) markUpstreams(ctx context.Context, job string, upstreams []string) error {
	if len(upstreams) == 0 {
		return nil
	}
	marked, err := s.dependents(ctx, s.pool, job, upstreams)
	if err != nil {
		return err
	}
	var fresh []string
	for _, name := range upstreams {
		if mark, ok := marked[name]; ok && mark < 2 {
			fresh = append(fresh, name)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	if _, err := s.pool.Exec(ctx, s.sql("dependency/mark_upstreams"), fresh); err != nil {
		return err
	}
	if err := s.awaitOpenWriters(ctx, "job_executions"); err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, s.sql("dependency/mark_latest_executions"), fresh)
	return err
}

// dependents returns the column dependents of the jobs on which a job depends. These jobs must
// exist.
func (s *Store) dependents(ctx context.Context, db pgnotify.Querier, job string, upstreams []string) (map[string]int16, error) {
	marked := make(map[string]int16)
	_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
		var name string
		var mark int16
		err = rows.Scan(&name, &mark)
		marked[name] = mark
		return none, err
	}, s.sql("dependency/list_upstreams"), upstreams)
	if err != nil {
		return nil, err
	}
	for _, name := range upstreams {
		if _, ok := marked[name]; !ok && name != job {
			return nil, contractError{courier.Errorf(courier.ErrNotFound, "job %q depends on job %q, which does not exist", job, name)}
		}
	}
	return marked, nil
}

// lockSaves waits for other transactions that save dependencies or remove jobs.
func (s *Store) lockSaves(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, s.sql("dependency/lock_saves"), lockNumber("courier dependencies "+s.opt.Schema))
	return err
}

// awaitOpenWriters waits until all transactions have ended that have written rows of the given
// table.
func (s *Store) awaitOpenWriters(ctx context.Context, name string) error {
	table := pgx.Identifier{s.opt.Schema, name}.Sanitize()
	ctx, cancel := context.WithTimeout(ctx, openWriterTimeout)
	defer cancel()
	writers, err := query(ctx, s.pool, scanQueue, s.sql("dependency/list_open_writers"), []string{}, table)
	for wait := time.Millisecond; err == nil && len(writers) > 0; wait = min(2*wait, 100*time.Millisecond) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("a transaction that has created executions is still open; commit it, and save again: %w", ctx.Err())
		case <-time.After(wait):
		}
		writers, err = query(ctx, s.pool, scanQueue, s.sql("dependency/list_open_writers"), writers, table)
	}
	return err
}
