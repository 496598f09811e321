package pgstore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

var (
	_ store.Overview   = (*Store)(nil)
	_ store.Statistics = (*Store)(nil)
)

// Census counts the executions that have not ended, and failed ones, in one statement.
func (s *Store) Census(ctx context.Context, most int) (c store.Census, err error) {
	c.CountLimit = cmp.Or(min(max(most, 0), store.MaxCountLimit), store.DefaultCountLimit)
	err = s.overview(ctx, &c, s.sql("overview/census"), int64(c.CountLimit), int64(store.MaxQueues), int64(store.QueueCountShare), int64(store.MinQueueCountLimit))
	return c, err
}

// Incidents returns executions that somebody may have to look at, in one statement.
func (s *Store) Incidents(ctx context.Context, most int) (in store.Incidents, err error) {
	in.Limit = cmp.Or(min(max(most, 0), store.MaxCountLimit), store.DefaultCountLimit)
	err = s.overview(ctx, &in, s.sql("overview/incidents"), int64(in.Limit), int64(store.MaxCountLimit), int64(store.MaxSupersedingExamined), int64(store.MaxSuperseding), int32(store.MaxSupersedingParams))
	return in, err
}

// Stats returns figures for metrics, in three statements.
func (s *Store) Stats(ctx context.Context, most int) (st store.Stats, err error) {
	most = cmp.Or(min(max(most, 0), store.MaxCountLimit), store.DefaultCountLimit)
	if err := s.overview(ctx, &st, s.sql("overview/statistics"), int64(most)); err != nil {
		return st, err
	}
	tables, holder, err := s.databaseHealth(ctx)
	if err != nil {
		return st, failed("statistics of the database", err)
	}
	pool := s.pool.unchecked.Stat()
	st.Database = &store.DatabaseStats{ConnectionsUsed: int(pool.AcquiredConns()), ConnectionsMax: int(pool.MaxConns())}
	for _, t := range tables {
		st.Database.Tables = append(st.Database.Tables, store.TableStats{Name: t.Name, Live: t.Live, Dead: t.Dead})
	}
	if holder != nil {
		st.Database.XminAge, st.Database.XminTransactions = holder.Age, holder.Transactions
	}
	return st, nil
}

// overview reads the answer of a statement, which is JSON.
func (s *Store) overview(ctx context.Context, to any, sql string, args ...any) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (text string, err error) { return text, rows.Scan(&text) }, sql, args...)
	if err != nil {
		return failed("look at the executions", err)
	}
	if err := json.Unmarshal([]byte(list[0]), to); err != nil {
		return fmt.Errorf("pgstore: read the executions: %w", err)
	}
	return nil
}

// Circumstances returns the facts that decide whether an execution makes progress.
func (s *Store) Circumstances(ctx context.Context, id courier.ExecutionID, age time.Duration) (store.Circumstances, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Circumstances{}, err
	}
	type found struct {
		row
		store.Circumstances
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (f found, err error) {
		var limits, workers string
		err = rows.Scan(append(f.fields(), &f.At, &f.StepTypes, &f.Ahead, &limits, &workers, &f.ChainPaused)...)
		if err == nil {
			err = json.Unmarshal([]byte(limits), &f.Limits)
		}
		if err == nil {
			err = json.Unmarshal([]byte(workers), &f.Workers)
		}
		return f, err
	}, s.sql("overview/circumstances"), bind.ID(string(id)), int64(store.DefaultCountLimit), int64(store.DefaultLimit), micros(age), int64(store.MaxWorkers))
	if err != nil {
		return store.Circumstances{}, failed(fmt.Sprintf("look at execution %s", id), err)
	}
	if len(list) == 0 {
		return store.Circumstances{}, unknown(id)
	}
	c := list[0].Circumstances
	c.At = c.At.UTC()
	for i := range c.Workers {
		w := &c.Workers[i]
		w.StartedAt, w.SeenAt = w.StartedAt.UTC(), w.SeenAt.UTC()
	}
	if c.Execution, err = s.one(ctx, s.pool, &list[0].row); err != nil || c.Execution.State != courier.Paused {
		return c, err
	}
	// An entry never changes, so the entry of the snapshot is the same.
	entries, err := s.Audit(ctx, store.AuditFilter{Execution: id, After: c.Execution.Seq - 1, Limit: 1})
	if len(entries) > 0 {
		c.Entry = entries[0]
	}
	return c, err
}
