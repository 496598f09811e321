package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store"
)

var _ store.Figures = (*Store)(nil)

// CountHours counts the minutes that are due, in one round trip and one transaction. It counts by
// minutes, because otherwise it would read the present hour again and again. It reads the pages of
// the history that were written in these minutes.
func (s *Store) CountHours(ctx context.Context, age time.Duration) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	ran, since := s.claims.runningNow().params()
	err := repeat(ctx, func() error {
		return s.pool.with(ctx, func(conn *session) error {
			var b pgx.Batch
			b.Queue(s.sql("figures/begin_transaction"))
			b.Queue(s.sql("figures/count_hours"), int32(60*store.KeptHours), int32(60*store.MaxCountedHours), age.Microseconds(), int64(store.DefaultCountLimit), ran, since)
			return conn.SendBatch(ctx, &b).Close()
		})
	})
	if err != nil {
		return failed("count what executions have done", err)
	}
	return nil
}

// Hours returns the figures of the last hours.
func (s *Store) Hours(ctx context.Context, most int) ([]store.HourFigures, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if most <= 0 {
		most = store.DefaultHours
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (h store.HourFigures, err error) {
		err = rows.Scan(&h.Hour, &h.CountedAt, &h.Completed, &h.Failed, &h.FilesIn, &h.BytesIn, &h.FilesOut, &h.BytesOut, &h.FailedItems, &h.RescuedItems, &h.Running, &h.Queued)
		h.Hour, h.CountedAt = h.Hour.UTC(), h.CountedAt.UTC()
		return h, err
	}, s.sql("figures/list_hours"), int32(min(most, store.KeptHours)))
	if err != nil {
		return nil, failed("read the figures of the last hours", err)
	}
	return list, nil
}
