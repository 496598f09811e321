package pgstore

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

var _ store.Acknowledgements = (*Store)(nil)

// Acknowledge saves an acknowledgement.
func (s *Store) Acknowledge(ctx context.Context, a store.Acknowledgement) (store.Acknowledgement, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Acknowledgement{}, err
	}
	err := repeat(ctx, func() error {
		return s.pool.QueryRow(ctx, s.sql("acknowledgement/put"), a.Key, a.Title, a.By, a.Reason, a.Until, a.Snoozed,
			store.AcknowledgementsKept.Microseconds(), int64(store.MaxAcknowledgements)).Scan(&a.At, &a.Until)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.Acknowledgement{}, courier.Errorf(courier.ErrConflict, "%d acknowledgements hold, and there can be no more", store.MaxAcknowledgements)
	}
	if err != nil {
		return store.Acknowledgement{}, failed("acknowledge", err)
	}
	a.At, a.Until = a.At.UTC(), a.Until.UTC()
	return a, nil
}

// Withdraw removes an acknowledgement.
func (s *Store) Withdraw(ctx context.Context, key string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	var found int64
	err := repeat(ctx, func() error {
		tag, err := s.pool.Exec(ctx, s.sql("acknowledgement/remove"), key)
		found = tag.RowsAffected()
		return err
	})
	if err != nil {
		return failed("withdraw an acknowledgement", err)
	}
	if found == 0 {
		return courier.ErrNotFound
	}
	return nil
}

// Acknowledgements returns the acknowledgements that hold or ended lately.
func (s *Store) Acknowledgements(ctx context.Context) ([]store.Acknowledgement, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (a store.Acknowledgement, err error) {
		err = rows.Scan(&a.Key, &a.Title, &a.By, &a.Reason, &a.At, &a.Until, &a.Snoozed)
		a.At, a.Until = a.At.UTC(), a.Until.UTC()
		return a, err
	}, s.sql("acknowledgement/list"), store.AcknowledgementsKept.Microseconds(), int64(2*store.MaxAcknowledgements))
	if err != nil {
		return nil, failed("read the acknowledgements", err)
	}
	return list, nil
}
