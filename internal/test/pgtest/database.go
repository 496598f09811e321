package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Database makes an empty database with a name of its own on the server, whose
// URL may name any database that there is. It returns the URL of the new one,
// and the function that drops it together with the connections to it.
func Database(ctx context.Context, server string) (string, func() error, error) {
	u, err := parseURL(server)
	if err != nil {
		return "", nil, err
	}
	name := "courier_test_" + strings.ToLower(rand.Text()[:16])
	if err := execute(ctx, server, "create database "+name+" template template0 encoding 'UTF8'"); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	drop := func() error {
		return execute(context.Background(), server, "drop database if exists "+name+" with (force)")
	}
	return u.String(), drop, nil
}

// parseURL parses the URL of a database. Unlike the driver it takes no other
// form.
func parseURL(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("not a URL of the form postgres://user:password@host:port/database")
	}
	return u, nil
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, server, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := connect(ctx, server)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(ctx))
}

// ask returns the single value that a query selects, on a connection of its own.
func ask[T any](ctx context.Context, server, question string) (T, error) {
	var answer T
	conn, err := connect(ctx, server)
	if err != nil {
		return answer, err
	}
	err = conn.QueryRow(ctx, question).Scan(&answer)
	return answer, errors.Join(err, conn.Close(ctx))
}

// connect connects to a server, which may be starting or full until ctx ends.
func connect(ctx context.Context, server string) (*pgx.Conn, error) {
	for {
		conn, err := pgx.Connect(ctx, server)
		if err == nil || !passing(err) {
			return conn, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(10 * pause):
		}
	}
}

// passing reports whether an error is one of a server that starts, stops or
// has all its connections in use.
func passing(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (refused.Code == "53300" || refused.Code == "57P03")
}
