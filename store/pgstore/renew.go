package pgstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/bind"
)

// renewals holds the connection that renews leases. The first renewal opens it; one
// renewal at a time uses it.
type renewals struct {
	mu   sync.Mutex // held while the connection is used
	conn *session
}

func (r *renewals) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

// drop closes the connection.
func (r *renewals) drop() {
	if r.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = r.conn.Close(ctx)
	r.conn = nil
}

// connect opens a connection for the store, with the settings of the pool.
func connect(ctx context.Context, pool *pgxpool.Pool) (*session, error) {
	c := pool.Config()
	if c.BeforeConnect != nil {
		if err := c.BeforeConnect(ctx, c.ConnConfig); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, c.ConnConfig)
	if err != nil {
		return nil, err
	}
	if c.AfterConnect != nil {
		err = c.AfterConnect(ctx, conn)
	}
	var checked *session
	if err == nil {
		checked, err = checkSession(ctx, conn, nil)
	}
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return checked, nil
}

// Renew extends leases and returns those that have not passed to another worker.
// Without leases it reports whether the database takes renewals.
func (s *Store) Renew(ctx context.Context, r store.RenewRequest) ([]store.Renewed, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	s.renewals.mu.Lock()
	defer s.renewals.mu.Unlock()
	if err := s.checkOpen(ctx); err != nil { // it may have waited for long
		return nil, err
	}
	s.claims.expect(r.For)
	list, err := s.renew(ctx, r)
	if err != nil {
		s.renewals.drop()
		return nil, failed("renew leases", err)
	}
	return list, nil
}

func (s *Store) renew(ctx context.Context, r store.RenewRequest) ([]store.Renewed, error) {
	if s.renewals.conn == nil || s.renewals.conn.IsClosed() {
		conn, err := connect(ctx, s.pool.unchecked)
		if err != nil {
			return nil, err
		}
		s.renewals.conn = conn
	}
	leases := make(map[courier.ExecutionID]store.Lease, len(r.Leases))
	for _, l := range r.Leases {
		l.Token = store.Token(bind.ID(string(l.Token)))
		leases[l.Execution] = l
	}
	list := make([]store.Renewed, 0, len(r.Leases))
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		got, err := s.extend(ctx, leases, r.For)
		if err != nil {
			return nil, err
		}
		for _, g := range got {
			delete(leases, g.Execution)
		}
		list = append(list, got...)
		if len(leases) == 0 {
			return list, nil
		}
		// The others are lost, or were just being written.
		if err := s.forgetLost(ctx, leases); err != nil || len(leases) == 0 {
			return list, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d executions kept being written: %w", len(leases), ctx.Err())
		case <-time.After(wait):
		}
	}
}

// extend extends the leases that it can lock at once. Progress is sent only if some lease
// has any.
func (s *Store) extend(ctx context.Context, leases map[courier.ExecutionID]store.Lease, d time.Duration) ([]store.Renewed, error) {
	n := len(leases)
	ids, tokens, progress, idle := make([]string, 0, n), make([]string, 0, n), bind.TextColumn{N: n}, make([]int64, n)
	for id, l := range leases {
		if l.Progress != nil {
			progress.Set(len(ids), encodeProgress(l.Progress))
			idle[len(ids)] = micros(l.Progress.Idle)
		}
		ids, tokens = append(ids, bind.ID(string(id))), append(tokens, string(l.Token))
	}
	sql, args := s.sql("lease/renew"), []any{ids, tokens, micros(d)}
	if !progress.Empty() {
		sql, args = s.sql("lease/renew_progress"), append(args, progress.Arg(), idle)
	}
	return query(ctx, s.renewals.conn, func(rows pgx.Rows) (r store.Renewed, err error) {
		err = rows.Scan(&r.Execution, &r.Request, &r.By, &r.Reason)
		return r, err
	}, sql, args...)
}

// forgetLost removes the leases that have ended or were taken over.
func (s *Store) forgetLost(ctx context.Context, leases map[courier.ExecutionID]store.Lease) error {
	ids := make([]string, 0, len(leases))
	for id := range leases {
		ids = append(ids, bind.ID(string(id)))
	}
	standings, err := s.leaseStates(ctx, s.renewals.conn, ids)
	if err != nil {
		return err
	}
	for id, l := range leases {
		if st, ok := standings[id]; !ok || st.State != courier.Running || st.Lease != l.Token {
			delete(leases, id)
		}
	}
	return nil
}
