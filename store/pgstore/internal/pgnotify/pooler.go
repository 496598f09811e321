package pgnotify

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
)

// errPooler says why a store does not listen at all.
var errPooler = errors.New("notifications do not arrive: there is a pooler in transaction mode in between")

// refusePooler returns errPooler if the statements of one client reach the server over the
// connections of many. A LISTEN would be useless there, and would stay on a connection that another
// client uses next. In addition, PgBouncer from 1.18 to 1.20 ends when a notification arrives while
// it cancels a statement (pgbouncer issue 822).
func (n *Notifier) refusePooler(ctx context.Context, conn *pgx.Conn) error {
	backend := func(c *pgx.Conn) (pid uint32, err error) {
		err = c.QueryRow(ctx, "select pg_catalog.pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
		return pid, err
	}
	first, err := backend(conn)
	if err != nil || first == conn.PgConn().PID() {
		return err
	}
	// The server does not know this client: there is a pooler. In session mode each
	// client has a connection to the server as long as it has one to the pooler.
	other, err := n.opt.Connect(ctx)
	if err != nil {
		return err
	}
	defer closeSoon(other)
	const tries = 5 // other clients of the pooler may use it in between
	for range tries {
		theirs, err := backend(other)
		if err != nil {
			return err
		}
		mine, err := backend(conn)
		if err != nil {
			return err
		}
		if mine == theirs || mine != first {
			return errPooler
		}
	}
	return nil
}
