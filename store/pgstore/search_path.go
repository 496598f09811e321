package pgstore

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
)

// The statements name functions, operators and types without pg_catalog, as SQL is usually written.
// That is safe while pg_catalog is the first schema of a session's search_path, which it is unless
// the setting names it at a later place. An exact match is taken from the first schema that has it,
// and the statements have exact types. A function that takes any type can't match exactly, so it is
// named with its schema: pg_catalog.unnest. Tests run all statements with a path in which these
// names have other meanings.
//
// checkSearchPath fails in a session where pg_catalog is not first, apart from the session's own
// temporary schema, which is not searched for functions and operators. The error has
// wrongSearchPath and the path. It is an error, and not a result, so that the server executes
// nothing that was sent after it.
const checkSearchPath = `select case
	when p.path[case when pg_catalog.starts_with(p.path[1]::pg_catalog.text, 'pg_temp_') then 2 else 1 end] operator(pg_catalog.=) 'pg_catalog'::pg_catalog.name then 0
	else pg_catalog.concat('` + wrongSearchPath + `', p.path)::pg_catalog.int4 end
from (select pg_catalog.current_schemas(true) as path) p`

const wrongSearchPath = "pg_catalog is not first in "

// searchPathError returns the error of checkSearchPath with advice, and other errors as they are.
func searchPathError(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !strings.Contains(e.Message, wrongSearchPath) {
		return err
	}
	_, path, _ := strings.Cut(e.Message, wrongSearchPath)
	return courier.Errorf(courier.ErrInvalid, "the search_path of the session leads to %s, and objects of a schema before pg_catalog would take the place of PostgreSQL's own; nothing was read or written: take pg_catalog out of the setting, as it is first where it is not named (alter role ... reset search_path, or the same for the database; poolers drop what a connection string sets)",
		strings.TrimSuffix(path, `"`))
}

// sessions are the sessions of a pool.
type sessions struct{ unchecked *pgxpool.Pool }

// A session is a connection that is checked by checkSearchPath before its first use. If a pooler
// may send each transaction to another session of the server, the check is repeated before each
// transaction, in the same round trip.
type session struct {
	*pgx.Conn
	pooled  bool
	release func()
}

// checkedSession is a key of the custom data of a connection that has been checked. The
// value says whether there is a pooler.
const checkedSession = "courier: search_path checked"

// checkSession returns a connection as a session, or an error if statements can't be sent over it.
// Release returns the connection to its owner.
func checkSession(ctx context.Context, conn *pgx.Conn, release func()) (*session, error) {
	data := conn.PgConn().CustomData()
	pooled, ok := data[checkedSession].(bool)
	if !ok {
		results, err := conn.PgConn().Exec(ctx, "select pg_catalog.pg_backend_pid(), ("+checkSearchPath+")").ReadAll()
		if err != nil {
			return nil, searchPathError(err)
		}
		// A pooler does not report the process of a server's session.
		process, err := strconv.ParseUint(string(results[0].Rows[0][0]), 10, 32)
		pooled = err != nil || uint32(process) != conn.PgConn().PID()
		data[checkedSession] = pooled
	}
	return &session{conn, pooled, release}, nil
}

// acquire returns a session of the pool, which the caller releases.
func (s sessions) acquire(ctx context.Context) (*session, error) {
	conn, err := s.unchecked.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	c, err := checkSession(ctx, conn.Conn(), conn.Release)
	if err != nil {
		conn.Release()
	}
	return c, err
}

// begins reports whether the next statement may reach another session of the server.
func (c *session) begins() bool { return c.pooled && c.PgConn().TxStatus() == 'I' }

func (c *session) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if c.begins() {
		return queryChecked(ctx, c.Conn, sql, args)
	}
	return c.Conn.Query(ctx, sql, args...)
}

func (c *session) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return sessionRow(func(to []any) error {
		rows, err := c.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if !rows.Next() {
			return cmp.Or(rows.Err(), pgx.ErrNoRows)
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		rows.Close()
		return rows.Err()
	})
}

func (c *session) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if !c.begins() {
		return c.Conn.Exec(ctx, sql, args...)
	}
	rows, err := queryChecked(ctx, c.Conn, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return rows.CommandTag(), rows.Err()
}

func (c *session) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	if c.begins() {
		return sendChecked(ctx, c.Conn, b)
	}
	return c.Conn.SendBatch(ctx, b)
}

func (c *session) BeginTx(ctx context.Context, opt pgx.TxOptions) (pgx.Tx, error) {
	if c.pooled {
		opt.BeginQuery = "begin isolation level " + string(opt.IsoLevel) + "; " + checkSearchPath
	}
	tx, err := c.Conn.BeginTx(ctx, opt)
	return tx, searchPathError(err)
}

// sendChecked sends a batch after checkSearchPath, in the same round trip.
func sendChecked(ctx context.Context, db interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, b *pgx.Batch) pgx.BatchResults {
	var checked pgx.Batch
	checked.Queue(checkSearchPath)
	checked.QueuedQueries = append(checked.QueuedQueries, b.QueuedQueries...)
	results := db.SendBatch(ctx, &checked)
	if _, err := results.Exec(); err != nil {
		_ = results.Close()
		return failedBatch{err: searchPathError(err)}
	}
	return results
}

// queryChecked sends a statement after checkSearchPath, in the same round trip.
func queryChecked(ctx context.Context, db interface {
	SendBatch(context.Context, *pgx.Batch) pgx.BatchResults
}, sql string, args []any) (pgx.Rows, error) {
	var b pgx.Batch
	b.Queue(sql, args...)
	results := sendChecked(ctx, db, &b)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &sessionRows{rows, func() { _ = results.Close() }}, nil
}

// with calls f with a session of the pool.
func (s sessions) with(ctx context.Context, f func(*session) error) error {
	c, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer c.release()
	return f(c)
}

// inTransaction calls f in a transaction, which is committed unless f returns an error.
func (s sessions) inTransaction(ctx context.Context, f func(pgx.Tx) error) error {
	return s.with(ctx, func(c *session) error { return pgx.BeginTxFunc(ctx, c, readCommitted, f) })
}

// Query sends a statement. Rows that are closed, or read to their end, release the session.
func (s sessions) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	c, err := s.acquire(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.Query(ctx, sql, args...)
	if err != nil {
		c.release()
		return nil, err
	}
	return &sessionRows{rows, c.release}, nil
}

// SendBatch sends statements. Closing the results releases the session.
func (s sessions) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	c, err := s.acquire(ctx)
	if err != nil {
		return failedBatch{err: err}
	}
	return &sessionBatch{c.SendBatch(ctx, b), c.release}
}

// A sessionBatch has the results of a batch, and releases its session.
type sessionBatch struct {
	pgx.BatchResults
	release func()
}

func (b *sessionBatch) Close() error {
	defer b.release()
	return b.BatchResults.Close()
}

// A failedBatch has the results of a batch that was not sent, or not executed.
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
		return s.with(ctx, func(c *session) error { return c.QueryRow(ctx, sql, args...).Scan(to...) })
	})
}

// Exec sends a statement and ignores its rows.
func (s sessions) Exec(ctx context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	err = s.with(ctx, func(c *session) error {
		tag, err = c.Exec(ctx, sql, args...)
		return err
	})
	return tag, err
}

type sessionRow func(to []any) error

func (r sessionRow) Scan(to ...any) error { return r(to) }

// sessionRows are the rows of a statement. At their end they release the session.
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

// A callersTx is a transaction of a caller, who may have set the path of the session. The first
// statement is sent after checkSearchPath, in the same round trip.
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
	rows, err := queryChecked(ctx, t.Tx, sql, args)
	t.checked = err == nil
	return rows, err
}
