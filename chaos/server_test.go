package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// The server stops in every way, again and again, under load; then it loses its
// connections, takes no writes, has no connection left, and cancels what takes
// long.
func TestServer(t *testing.T) {
	t.Parallel()
	rounds(t, *restarts, 30, func(t *testing.T, n int) {
		c := pgtest.Start(t, &pgtest.Options{Config: map[string]string{
			"max_connections": "40", "log_min_error_statement": "panic",
			"fsync": "off", // what a killed server has written, the system still has
		}})
		w := newWorld(t, c.URL(""), someLimits)
		w.forgetful = true
		begun := time.Now()
		for range 3 {
			w.spawn(ordinary)
		}
		stop := w.load(20)
		for i := range n {
			time.Sleep(time.Duration(200+rand.IntN(300)) * time.Millisecond)
			switch i % 3 {
			case 0:
				c.Kill(t)
			case 1:
				c.Stop(t, "immediate")
			default:
				c.Stop(t, "fast")
			}
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			c.Begin(t)
		}
		restarted := time.Since(begun)
		a := newAdmin(t, c.URL(""))
		for _, trouble := range []func(){a.terminate, a.readOnly, a.exhaust, a.hurry} {
			trouble()
			time.Sleep(300 * time.Millisecond)
		}
		stop()
		w.settle()
		r, _ := w.check()
		t.Logf("%d restarts in %v, other trouble and the end in %v: %v", n, restarted.Round(time.Millisecond), (time.Since(begun) - restarted).Round(time.Millisecond), r)
	})
}

// trouble is how long the server is in each kind of trouble.
const trouble = 1500 * time.Millisecond

// An admin makes trouble from inside of the server.
type admin struct {
	testing.TB
	url  string
	conn *pgx.Conn
}

func newAdmin(t testing.TB, url string) *admin {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	a := &admin{t, url, conn}
	a.do("set statement_timeout = 0")
	a.do("set default_transaction_read_only = off")
	return a
}

func (a *admin) do(sql string) {
	a.Helper()
	if _, err := a.conn.Exec(a.Context(), sql); err != nil {
		a.Fatalf("%s: %v", sql, err)
	}
}

// change changes a setting for all sessions.
func (a *admin) change(setting string) {
	a.Helper()
	a.do("alter system " + setting)
	a.do("select pg_reload_conf()")
}

// fails waits until a statement of somebody else's fails with a SQLSTATE.
func (a *admin) fails(state, sql string) {
	a.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = a.other(sql); stateOf(err) == state {
			return
		}
	}
	a.Fatalf("%s: %v, not SQLSTATE %s", sql, err, state)
}

func stateOf(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// other executes a statement on a connection of its own.
func (a *admin) other(sql string) error {
	conn, err := pgx.Connect(a.Context(), a.url)
	if err != nil {
		return err
	}
	defer conn.Close(a.Context())
	_, err = conn.Exec(a.Context(), sql)
	return err
}

// terminate terminates connections at random.
func (a *admin) terminate() {
	n := 0
	for end := time.Now().Add(trouble); time.Now().Before(end); time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) {
		rows, err := a.conn.Query(a.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
			where backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 3`)
		if err != nil {
			a.Fatal(err)
		}
		rows.Close()
		n += int(rows.CommandTag().RowsAffected())
	}
	if n == 0 {
		a.Error("no connection was terminated")
	}
}

// readOnly lets the server take no writes for a while.
func (a *admin) readOnly() {
	a.change("set default_transaction_read_only = on")
	a.fails("25006", "create table never_made ()")
	time.Sleep(trouble)
	a.change("reset default_transaction_read_only")
}

// exhaust takes all connections away and keeps them for a while.
func (a *admin) exhaust() {
	var idle []*pgx.Conn
	full := false
	for end := time.Now().Add(trouble); time.Now().Before(end); {
		a.do("select pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and application_name = '' and pid <> pg_backend_pid()")
		for {
			conn, err := pgx.Connect(a.Context(), a.url+"&application_name=idle")
			if err != nil {
				full = full || stateOf(err) == "53300"
				break
			}
			idle = append(idle, conn)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !full {
		a.Errorf("there were connections left beside %d", len(idle))
	}
	for _, conn := range idle {
		if err := conn.Close(a.Context()); err != nil {
			a.Error(fmt.Errorf("idle connection: %w", err))
		}
	}
}

// hurry lets the server cancel all that takes long.
func (a *admin) hurry() {
	a.change("set statement_timeout = '20ms'")
	a.fails("57014", "select pg_sleep(1)")
	time.Sleep(trouble)
	a.change("reset statement_timeout")
}
