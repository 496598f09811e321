package pgstore_test

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier/store/pgstore"
)

// A tracer is called with each statement that a store sends, and its name.
type tracer func(name, sql string, args []any)

func (f tracer) note(sql string, args []any) {
	if name, ok := nameOf(sql); ok {
		f(name, sql, args)
	}
}

// nameOf is the name that the store gives a statement of its own.
func nameOf(sql string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(sql, "/* courier: ")
	name, _, _ = strings.Cut(rest, " ")
	return name, ok
}

// titleOf is the name of a statement, or how it begins.
func titleOf(sql string) string {
	if name, ok := nameOf(sql); ok {
		return name
	}
	return sql[:min(len(sql), 60)]
}

func (f tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	f.note(q.SQL, q.Args)
	return ctx
}

func (f tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (f tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		f.note(q.SQL, q.Arguments)
	}
	return ctx
}

func (f tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (f tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

// traced opens a store whose statements a tracer sees.
func traced(t *testing.T, url string, opt *pgstore.Options, f tracer) *pgstore.Store {
	t.Helper()
	open(t, url, nil) // which makes the tables
	pool := dialWith(t, url, func(c *pgx.ConnConfig) { c.Tracer = f })
	s, err := pgstore.New(t.Context(), pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
