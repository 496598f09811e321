package pgstore

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
)

// The statements name functions, operators and types without pg_catalog, as SQL is
// usually written. That is safe while pg_catalog is the first schema of a session's
// search_path, which it is unless the setting names it at a later place: what matches
// exactly is taken from the first schema that has it, and the statements have exact types.
// What no exact type can have, since it takes any type, stands with its schema:
// pg_catalog.unnest. Tests run all statements along a path with other meanings of them.
//
// checkSearchPath fails in a session where pg_catalog is not first, apart from the
// session's own temporary schema, which is not searched for functions and operators. The
// error has wrongSearchPath and the path. It is an error, and not a result, so that the
// server executes nothing that was sent behind it.
const checkSearchPath = `select case
	when p.path[case when pg_catalog.starts_with(p.path[1]::pg_catalog.text, 'pg_temp_') then 2 else 1 end] operator(pg_catalog.=) 'pg_catalog'::pg_catalog.name then 0
	else pg_catalog.concat('` + wrongSearchPath + `', p.path)::pg_catalog.int4 end
from (select pg_catalog.current_schemas(true) as path) p`

const wrongSearchPath = "pg_catalog is not first in "

// searchPathError returns the error of checkSearchPath in words for those who can mend
// it, and other errors as they are.
func searchPathError(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.Contains(e.Message, wrongSearchPath) {
		return err
	}
	_, path, _ := strings.Cut(e.Message, wrongSearchPath)
	return courier.Errorf(courier.ErrInvalid, "the search_path of the session leads to %s, and objects of a schema before pg_catalog would take the place of PostgreSQL's own; nothing was read or written: take pg_catalog out of the setting, as it is first where it is not named (alter role ... reset search_path, or the same for the database; poolers drop what a connection string sets)",
		strings.TrimSuffix(path, `"`))
}

// sessions are the sessions of a pool. Each is checked by checkSearchPath before its first
// use. Behind a pooler a session is that of the client with the pooler.
type sessions struct{ unchecked *pgxpool.Pool }

// checkedSession is a key of the custom data of a connection that has been checked.
const checkedSession = "courier: search_path checked"

// checkSession returns an error if statements can't be sent over a connection.
func checkSession(ctx context.Context, conn *pgx.Conn) error {
	data := conn.PgConn().CustomData()
	if data[checkedSession] != nil {
		return nil
	}
	if _, err := conn.Exec(ctx, checkSearchPath); err != nil {
		return searchPathError(err)
	}
	data[checkedSession] = true
	return nil
}

// acquire returns a connection of the pool, which the caller releases.
func (s sessions) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := s.unchecked.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkSession(ctx, conn.Conn()); err != nil {
		conn.Release()
		return nil, err
	}
	return conn, nil
}

// with calls f with a connection of the pool.
func (s sessions) with(ctx context.Context, f func(*pgxpool.Conn) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return f(conn)
}

// inTransaction calls f in a transaction, which is committed unless f returns an error.
func (s sessions) inTransaction(ctx context.Context, f func(pgx.Tx) error) error {
	return s.with(ctx, func(conn *pgxpool.Conn) error { return pgx.BeginTxFunc(ctx, conn, readCommitted, f) })
}

// Query sends a statement. Rows that are closed, or read to their end, release the connection.
func (s sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		conn.Release()
		return nil, err
	}
	return &sessionRows{rows, conn.Release}, nil
}

// SendBatch sends statements. Closing the results releases the connection.
func (s sessions) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	conn, err := s.acquire(ctx)
	if err != nil {
		return failedBatch{err: err}
	}
	return &sessionBatch{conn.SendBatch(ctx, b), conn}
}

// sessionBatch are the results of a batch, with its connection.
type sessionBatch struct {
	pgx.BatchResults
	conn *pgxpool.Conn
}

func (b *sessionBatch) Close() error {
	defer b.conn.Release()
	return b.BatchResults.Close()
}

// failedBatch are the results of a batch for which there was no connection.
type failedBatch struct {
	pgx.BatchResults // nil: what follows are its methods that are called
	err              error
}

func (f failedBatch) Exec() (pgconn.CommandTag, error) { return pgconn.CommandTag{}, f.err }
func (f failedBatch) Query() (pgx.Rows, error)         { return nil, f.err }
func (f failedBatch) QueryRow() pgx.Row                { return sessionRow(func([]any) error { return f.err }) }
func (f failedBatch) Close() error                     { return f.err }

// QueryRow returns the first row of a statement, which is sent by Scan.
func (s sessions) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return sessionRow(func(to []any) error {
		return s.with(ctx, func(conn *pgxpool.Conn) error { return conn.QueryRow(ctx, sql, args...).Scan(to...) })
	})
}

type sessionRow func(to []any) error

func (r sessionRow) Scan(to ...any) error { return r(to) }

// Exec sends a statement whose rows are of no interest.
func (s sessions) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = s.with(ctx, func(conn *pgxpool.Conn) error {
		tag, err = conn.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

// sessionRows are the rows of a statement, which release its connection at their end.
type sessionRows struct {
	pgx.Rows
	release func() // nil after the release
}

func (r *sessionRows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.end()
	return false
}

func (r *sessionRows) Close() {
	r.Rows.Close()
	r.end()
}

func (r *sessionRows) end() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
}

// callersTx is a transaction of a caller, who may have set the path of the session. The
// first statement is sent behind checkSearchPath, in the same round trip.
type callersTx struct {
	pgx.Tx
	checked bool
}

// Begin begins a savepoint.
func (t *callersTx) Begin(ctx context.Context) (pgx.Tx, error) {
	point, err := t.Tx.Begin(ctx)
	if err != nil {
		return nil, err
	}
	return &callersTx{point, t.checked}, nil
}

func (t *callersTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.checked {
		return t.Tx.Query(ctx, sql, args...)
	}
	var b pgx.Batch
	b.Queue(checkSearchPath)
	b.Queue(sql, args...)
	results := t.Tx.SendBatch(ctx, &b)
	if _, err := results.Exec(); err != nil {
		_ = results.Close()
		return nil, searchPathError(err)
	}
	t.checked = true
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &sessionRows{rows, func() { _ = results.Close() }}, nil
}
