package pgstore_test

import (
	"context"
	"flag"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
	"github.com/courierhq/courier/store/storetest"
)

var allModes = flag.Bool("modes", false, "let TestModes run the suite in four ways instead of two")

func TestStore(t *testing.T) { suite(t, pgx.QueryExecModeCacheStatement, false, nil) }

// TestModes runs the suite in other ways of pgx to execute queries, through PgBouncer
// in transaction mode and with a schema that has to be quoted. With -modes it also runs
// it with polling, and with the objects of an attacker in the search
// path, which TestHostilePath tries with a single execution.
func TestModes(t *testing.T) {
	if raced.On {
		return // the same code as in TestStore
	}
	var modes sync.WaitGroup
	list := []struct {
		name    string
		mode    pgx.QueryExecMode
		bouncer bool
		hostile bool
		opt     *pgstore.Options
	}{
		{name: "cache_describe_bouncer", mode: pgx.QueryExecModeCacheDescribe, bouncer: true},
		{name: "simple_protocol_quoted_schema", mode: pgx.QueryExecModeSimpleProtocol, opt: &pgstore.Options{Schema: `odd "schema"`}},
		{name: "describe_exec_hostile_path", mode: pgx.QueryExecModeDescribeExec, hostile: true},
		{name: "exec_polling", mode: pgx.QueryExecModeExec, opt: &pgstore.Options{PollOnly: true}},
	}
	if !*allModes {
		list = list[:2]
	}
	for _, m := range list {
		// Most cases wait most of the time, so the modes run at once.
		modes.Go(func() {
			t.Run(m.name, func(t *testing.T) {
				if m.hostile {
					hostilePath(t, m.mode, true)
					return
				}
				suite(t, m.mode, m.bouncer, m.opt)
			})
		})
	}
	modes.Wait()
}

// suite runs the suite in a few databases at once, through PgBouncer or not.
func suite(t *testing.T, mode pgx.QueryExecMode, bouncer bool, opt *pgstore.Options) {
	t.Helper()
	const databases = 3
	free := make(chan *pgxpool.Pool, databases)
	for range databases {
		url := pgtest.URL(t)
		if bouncer {
			url = pgtest.Bouncer(t, url)
		}
		pool := newPool(t, url, mode)
		reopen(t, pool, opt).(*pgstore.Store).Close()
		free <- pool
	}
	storetest.Run(t, func(t *testing.T) store.Store {
		pool := <-free
		t.Cleanup(func() { free <- pool }) // after the store is closed
		s := emptied(t, pool, opt)
		t.Cleanup(func() { viewsAgree(t, pool, schemaOf(opt)) })
		return s
	}, &storetest.Options{Parallel: databases, MaxTransition: pgstore.MaxTransition})
}

func newPool(t testing.TB, url string, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	return dialWith(t, url, func(c *pgx.ConnConfig) { c.DefaultQueryExecMode = mode })
}

// dialWith connects as configure says.
func dialWith(t testing.TB, url string, configure func(*pgx.ConnConfig)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	configure(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// reopen returns a store without what tests before have left. A database for
// each would take longer than most cases do.
func reopen(t *testing.T, pool *pgxpool.Pool, opt *pgstore.Options) store.Store {
	t.Helper()
	if _, err := pgstore.Migrate(t.Context(), pool, &pgstore.MigrateOptions{Schema: schemaOf(opt)}); err != nil {
		t.Fatal(err)
	}
	return emptied(t, pool, opt)
}

func schemaOf(opt *pgstore.Options) string {
	if opt == nil || opt.Schema == "" {
		return pgstore.DefaultSchema
	}
	return opt.Schema
}

// emptied is reopen for a database with the tables.
func emptied(t *testing.T, pool *pgxpool.Pool, opt *pgstore.Options) store.Store {
	t.Helper()
	if err := empty(t, pool, schemaOf(opt)); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.New(t.Context(), pool, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// empty empties the tables of a schema.
func empty(t *testing.T, pool *pgxpool.Pool, schema string) error {
	sql := "begin; set local courier.retention = 'on';" // or the audit refuses
	for _, table := range []string{
		"execution_history", "job_executions", "chain_members", "chain_executions", "job_dependencies",
		"job_definition_versions", "job_definitions", "system_settings", "job_schedules", "chain_schedules",
		"execution_deadlines", "outbox", "outbox_windows", "subscriptions",
		"monitors", "monitor_files", "expectations", "arrivals", "workers", "trail", "journal", "minute_figures", "acknowledgements",
	} {
		sql += "delete from " + pgx.Identifier{schema, table}.Sanitize() + ";"
	}
	_, err := pool.Exec(t.Context(), sql+"commit", pgx.QueryExecModeSimpleProtocol)
	return err
}

// TestBouncerDropsNotifications checks that a store detects that it receives no
// notifications through PgBouncer, and that engines find work by polling.
func TestBouncerDropsNotifications(t *testing.T) {
	t.Parallel()
	url := pgtest.Bouncer(t, pgtest.URL(t)) + "&default_query_exec_mode=exec"
	found := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(logTo(found), nil))
	worker, client := open(t, url, &pgstore.Options{Log: log}), open(t, url, nil)
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "test.a", func(context.Context, *courier.Context, struct{}) (none struct{}, err error) { return none, nil }, nil)
	const poll = 500 * time.Millisecond
	e := engine.New(worker, reg, &engine.Options{Poll: poll, Workspace: t.TempDir()})
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer e.Stop(context.WithoutCancel(t.Context()))
	outside := engine.New(client, reg, nil)
	if _, err := outside.Jobs().Define(t.Context(), courier.Job{Name: "job", Steps: []courier.StepSpec{{Type: "test.a"}}}, nil); err != nil {
		t.Fatal(err)
	}
	// While it still waits for the echo, and after it has given up.
	for _, wait := range []bool{false, true} {
		if wait {
			select {
			case line := <-found:
				if !strings.Contains(line, "notifications do not arrive") || !strings.Contains(line, "workers poll") {
					t.Errorf("the store says %q", line)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("the store has not found out")
			}
		}
		if c, err := worker.Claim(t.Context(), request("w", 0)); err != nil || c.Watched != 0 {
			t.Errorf("it vouches for %v, %v", c.Watched, err)
		}
		x, err := outside.Enqueue(t.Context(), "job", nil)
		if err != nil {
			t.Fatal(err)
		}
		if x, err = outside.Wait(t.Context(), x.ID); err != nil || x.State != courier.Completed {
			t.Fatal(x.State, err)
		}
		if took := x.StartedAt.Sub(x.CreatedAt); took > 4*poll {
			t.Errorf("found after %v, with a poll every %v", took, poll)
		}
	}
}

// TestNothingListensBehindBouncer checks all connections of a PgBouncer in
// transaction mode: notifications on them would be for nobody, and end some of its
// versions.
func TestNothingListensBehindBouncer(t *testing.T) {
	t.Parallel()
	url := pgtest.Bouncer(t, pgtest.URL(t)) + "&default_query_exec_mode=exec"
	found := make(chan string, 100)
	s := open(t, url, &pgstore.Options{Log: slog.New(slog.NewTextHandler(logTo(found), nil))})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_ = s.Await(ctx, []string{courier.DefaultQueue}, 1<<62)
	select {
	case line := <-found:
		if !strings.Contains(line, "there is a pooler in transaction mode") || !strings.Contains(line, "workers poll") {
			t.Errorf("the store says %q", line)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the store has not found out")
	}
	pool := newPool(t, url, pgx.QueryExecModeExec)
	for range 10 { // no connection to the server can serve two transactions at once
		conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var listening int
		if err := tx.QueryRow(t.Context(), "select count(*) from pg_listening_channels()").Scan(&listening); err != nil || listening > 0 {
			t.Errorf("%d channels are listened to behind PgBouncer, %v", listening, err)
		}
	}
}

// TestListensBehindBouncerInSessionMode shows that a pooler alone is no reason to
// poll.
func TestListensBehindBouncerInSessionMode(t *testing.T) {
	t.Parallel()
	watched(t, open(t, pgtest.SessionBouncer(t, pgtest.URL(t))+"&default_query_exec_mode=exec", nil))
}

// logTo sends what is written, as far as there is room.
type logTo chan<- string

func (l logTo) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}
