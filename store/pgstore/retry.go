package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/courierhq/courier"
)

// code returns the SQLSTATE of an error, or "".
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// deadlock is the SQLSTATE of a transaction that was ended because it and another one waited for
// each other.
const deadlock = "40P01"

// uniqueViolation is the SQLSTATE of a row that already exists.
const uniqueViolation = "23505"

// again reports whether a transaction that failed with err had no effect and may
// succeed at once: a deadlock, a serialization failure, a lock timeout, or a
// migration that changed a prepared statement.
func again(err error) bool {
	switch code(err) {
	case "40001", deadlock, "55P03", "0A000", "26000":
		return true
	}
	return false
}

// maxAgain is how often a transaction is repeated.
const maxAgain = 10

// repeat calls f until it does not collide with another transaction.
func repeat(ctx context.Context, f func() error) error {
	for n := 1; ; n++ {
		err := f()
		if err == nil || !again(err) || n == maxAgain || ctx.Err() != nil {
			return err
		}
	}
}

// refused reports whether the server has refused the data of a statement, and would refuse it
// again.
func refused(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, "22") || strings.HasPrefix(c, "23") || strings.HasPrefix(c, "54")
}

// failed returns err with the action that failed, and with advice if there is any.
func failed(what string, err error) error {
	hint, lasting := "", false
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return fmt.Errorf("%s: %w", what, connectError(err))
	}
	switch c := code(err); c {
	case "25006":
		hint = "; the server is read-only: give all servers in the connection string and target_session_attrs=read-write, so that a connection is made to the one that is not"
	case "42501":
		hint, lasting = lackedRight(err), true
	case "42P01", "3F000", "42703", "42883":
		lasting = true
		hint = "; the schema is not what this version expects: run pgstore.Migrate"
	case "53300":
		hint = "; the server has no connection left: lower pool_max_conns or raise its max_connections"
	case "26000", "42P05":
		hint = "; a pooler seems to move the connection between servers: use QueryExecModeExec or QueryExecModeCacheDescribe in the pool's configuration"
	}
	if refused(err) {
		return courier.Errorf(courier.ErrInvalid, "%s: %w%s", what, err, hint)
	}
	err = fmt.Errorf("%s: %w%s", what, err, hint)
	if lasting {
		return courier.Permanent(err)
	}
	return err
}

// connectError returns the error of a first connection, with advice.
func connectError(err error) error {
	hint := ""
	switch c := code(err); {
	case c == "28P01" || c == "28000":
		hint = "; check user and password of the connection string, and pg_hba.conf of the server"
	case c == "3D000":
		hint = "; create the database, or name another one in the connection string"
	case c == "53300":
		hint = "; the server has no connection left: lower pool_max_conns or raise its max_connections"
	case c == "":
		hint = "; check host and port of the connection string, and whether the server is up"
	}
	return fmt.Errorf("connect: %w%s", err, hint)
}
