package pgstore_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore"
	"github.com/courierhq/courier/store/storetest"
)

// traps creates a schema "hostile" with a trap for everything that a statement
// could find by the search path: a clone of each operator and function of
// pg_catalog whose name occurs in $1, and others of that name for types for
// which pg_catalog has none; a domain for each type and a view for each table with
// such a name. Whatever of it is used raises an exception, and is counted besides,
// which no rollback undoes.
const traps = `
create schema hostile;
create sequence hostile.sprung;
create function hostile.spring() returns bool language plpgsql as $$ begin
	perform pg_catalog.nextval('hostile.sprung'); raise exception 'hostile code was run';
end $$;
grant usage on schema hostile to public;
grant all on sequence hostile.sprung to public;
create function hostile.try(statement text) returns int language plpgsql as $$ begin
	execute statement; return 1;
exception when others then return 0; -- what PL/pgSQL can't take, such as internal types
end $$;
create table hostile.words as select distinct unnest(string_to_array(%[1]s, ' ')) as word;
create function hostile.body() returns text language sql as $f$ select
	'language plpgsql as $$ begin perform hostile.spring(); return null; end $$' $f$;

create table hostile.types as select unnest(array['bool','int2','int4','int8','numeric','float8','text','name','uuid','interval','timestamptz','json','jsonb','xid','xid8',
	'int4[]','int8[]','text[]','name[]','uuid[]','timestamptz[]']::regtype[])::oid as t;

-- Operators. The name of a function tells its types.
create table hostile.operators as
with common as (select t from hostile.types),
names as (select distinct oprname from pg_operator where oprname in (select word from hostile.words))
select o.oprname, o.oprleft as l, o.oprright as r, o.oprresult as res from pg_operator o join names using (oprname)
union
select n.oprname, a.t, b.t, 'bool'::regtype from names n, common a, common b
where not exists (select from pg_operator o where o.oprname = n.oprname and o.oprleft = a.t and o.oprright = b.t);
create table hostile.made as
with f as (
	select distinct l, r, res, format('f_%%s_%%s_%%s', l, r, res) as name from hostile.operators
), fs as materialized (
	select f.*, hostile.try(format('create function hostile.%%s(%%s) returns %%s %%s', name,
		concat_ws(', ', case when l <> 0 then format_type(l, null) end, format_type(r, null)), format_type(res, null), hostile.body())) as made from f
)
select 'operator' as kind, o.oprname::text as name, hostile.try(format('create operator hostile.%%s (%%s rightarg = %%s, function = hostile.%%s)', o.oprname,
	case when o.l <> 0 then format('leftarg = %%s,', format_type(o.l, null)) end, format_type(o.r, null), fs.name)) as made
from hostile.operators o join fs using (l, r, res);

-- Functions and aggregates.
insert into hostile.made
select 'function', p.proname, greatest(
	hostile.try(format('create function hostile.%%I(%%s) returns %%s %%s', p.proname, args.list, format_type(p.prorettype, null), hostile.body())),
	hostile.try(format('create function hostile.%%I(%%s) returns text %%s', p.proname, args.list, hostile.body())))
from pg_proc p cross join lateral (
	select coalesce(string_agg(case when p.provariadic = '"any"'::regtype and n = p.pronargs then 'variadic anyarray'
		when t = '"any"'::regtype then 'anyelement' else format_type(t, null) end, ', ' order by n), '') as list
	from unnest(p.proargtypes::oid[]) with ordinality as a (t, n)
) args
where p.pronamespace = 'pg_catalog'::regnamespace and p.proname in (select word from hostile.words);
-- The same with another type for one of the arguments.
insert into hostile.made
select 'function', v.proname, hostile.try(format('create function hostile.%%I(%%s) returns text %%s', v.proname, v.list, hostile.body()))
from (
	select distinct p.proname, (
		select string_agg(format_type(case when a.n = at.n then other.t else a.t end, null), ', ' order by a.n)
		from unnest(p.proargtypes::oid[]) with ordinality as a (t, n) where a.n <= given.n
	) as list
	from pg_proc p cross join lateral generate_series(p.pronargs::int - p.pronargdefaults::int, p.pronargs::int) as given (n)
		cross join lateral unnest(p.proargtypes::oid[]) with ordinality as at (t, n) cross join hostile.types other
	where p.pronamespace = 'pg_catalog'::regnamespace and p.proname in (select word from hostile.words) and p.prokind = 'f' and p.provariadic = 0 and at.n <= given.n
		and not exists (select from pg_type t where t.oid = any(p.proargtypes::oid[]) and t.typtype = 'p')
) v;

-- Tables, and at last types: their names would hide those of pg_catalog above.
insert into hostile.made
select 'table', relname, hostile.try(format('create view hostile.%%1$I as select * from pg_catalog.%%1$I where hostile.spring()', relname))
from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind in ('r', 'v') and relname in (select word from hostile.words);
insert into hostile.made
select 'type', typname, hostile.try(format('create domain hostile.%%1$I as pg_catalog.%%1$I check (hostile.spring())', typname))
from pg_type where typnamespace = 'pg_catalog'::regnamespace and typtype = 'b' and typname !~ '^_' and typname in (select word from hostile.words);
revoke all on all tables in schema hostile from public;
grant select on all tables in schema hostile to public;
`

// setTraps creates the traps in a database, and has all later connections to it
// look for names along a path.
func setTraps(t *testing.T, url, path string) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	do := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%v\nin %.300s", err, sql)
		}
	}
	words := "'" + strings.ReplaceAll(strings.Join(pgstore.Words(), " "), "'", "''") + "'"
	do(fmt.Sprintf(traps, words))
	rows, err := conn.Query(ctx, "select kind, name from hostile.made group by 1, 2 having sum(made) = 0")
	if err != nil {
		t.Fatal(err)
	}
	lacking, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s string, err error) {
		var kind, name string
		err = row.Scan(&kind, &name)
		return kind + " " + name, err
	})
	if err != nil || len(lacking) > 0 {
		t.Fatalf("there is no trap for %q, %v", lacking, err)
	}
	var operators, functions, others int
	err = conn.QueryRow(ctx, "select sum(made) filter (where kind = 'operator'), sum(made) filter (where kind = 'function'), sum(made) filter (where kind in ('type', 'table')) from hostile.made").Scan(&operators, &functions, &others)
	if err != nil || operators < 500 || functions < 50 || others < 8 {
		t.Fatalf("%d operators, %d functions, %d types and tables, %v", operators, functions, others, err)
	}
	t.Logf("%d operators, %d functions, %d types and tables", operators, functions, others)
	do("do $$ begin execute format('alter database %I set search_path = " + path + "', current_database()); end $$")
}

// TestHostilePath runs some of what a store does in a database whose search path names a
// schema of an attacker, so that what does not match exactly is found there. TestModes runs
// the whole suite there.
func TestHostilePath(t *testing.T) {
	t.Parallel()
	hostilePath(t, pgx.QueryExecModeCacheStatement, false)
}

// hostilePath migrates, and runs the whole suite or some of it, along a path with
// traps, as a role that has the rights of an engine and no others.
func hostilePath(t *testing.T, mode pgx.QueryExecMode, whole bool) {
	t.Helper()
	url := pgtest.URL(t)
	role := newRole(t, dial(t, url))
	setTraps(t, url, "hostile")
	admin := dial(t, url) // now along the path
	sent := &sentTexts{}
	pool := dialWith(t, url, func(c *pgx.ConnConfig) {
		c.RuntimeParams["role"] = role
		c.DefaultQueryExecMode = mode
		c.Tracer = sent
	})
	first := true
	open := func(t *testing.T) store.Store { return openHostile(t, admin, pool, role, &first) }
	if s := open(t).(*pgstore.Store); whole {
		storetest.Run(t, open, nil)
	} else {
		oneExecution(t, s)
		health(t, s)
		if list, err := s.Executions(t.Context(), store.Filter{Job: "odd", Queue: "courier.q"}); err != nil || len(list) != 1 {
			t.Errorf("%d executions, %v", len(list), err)
		}
	}
	sent.check(t)
	sprung(t, admin)
}

// openHostile is reopen for two roles.
func openHostile(t *testing.T, admin, pool *pgxpool.Pool, role string, first *bool) store.Store {
	t.Helper()
	if _, err := pgstore.Migrate(t.Context(), admin, nil); err != nil {
		t.Fatal(err)
	}
	if *first {
		exec(t, admin, pgstore.Grants("", pgstore.Roles{Engine: role}))
		*first = false
	}
	if err := empty(t, admin, pgstore.DefaultSchema); err != nil {
		t.Fatal(err)
	}
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// sprung fails the test if a trap was used, after it has seen that they work.
func sprung(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	if n := value[int64](t, pool, "select last_value from hostile.sprung"); value[bool](t, pool, "select is_called from hostile.sprung") {
		t.Errorf("hostile code was run %d times", n)
	}
	held := value[[]string](t, pool, `select pg_catalog.array_agg(pg_catalog.concat(pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid), ': ', pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0)))
		from pg_catalog.pg_depend d
		where pg_catalog.pg_describe_object(d.refclassid, d.refobjid, 0) operator(pg_catalog.~) '^(type|function|operator) hostile[.]'
			and pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) operator(pg_catalog.!~) 'hostile[.]'
			and not exists (select from pg_catalog.pg_constraint c where c.oid operator(pg_catalog.=) d.objid and c.contypid operator(pg_catalog.<>) 0::pg_catalog.oid)`)
	if len(held) > 0 {
		t.Errorf("made of hostile objects: %q", held)
	}
	if _, err := pool.Exec(t.Context(), "select 2::bigint * interval '1 microsecond'"); err == nil || !strings.Contains(err.Error(), "hostile code was run") {
		t.Errorf("the trap for bigint * interval does not work: %v", err)
	}
}

// sentTexts collects the texts of statements.
type sentTexts struct {
	mu     sync.Mutex
	texts  map[string]bool
	places map[string]bool // the server's words for where hostile code was run
}

func (s *sentTexts) add(sql string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.texts == nil {
		s.texts = make(map[string]bool)
	}
	s.texts[sql] = true
}

// note takes note of where hostile code was run.
func (s *sentTexts) note(err error) {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(e.Message, "hostile code") {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.places == nil {
			s.places = make(map[string]bool)
		}
		s.places[e.Where] = true
	}
}

func (s *sentTexts) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL)
	return ctx
}
func (s *sentTexts) TraceQueryEnd(_ context.Context, _ *pgx.Conn, q pgx.TraceQueryEndData) {
	s.note(q.Err)
}
func (s *sentTexts) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		s.add(q.SQL)
	}
	return ctx
}
func (s *sentTexts) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.note(q.Err)
}
func (s *sentTexts) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// check fails the test if hostile code was run.
func (s *sentTexts) check(t *testing.T) {
	t.Helper()
	s.mu.Lock() // a notification may still be sent
	defer s.mu.Unlock()
	for where := range s.places {
		t.Errorf("hostile code was run in:\n%s", where)
	}
	if len(s.texts) < 15 {
		t.Errorf("only %d statements were sent", len(s.texts))
	}
}

// TestExactTypes plans every statement along the path of an attacker, as a role that must
// not call any of the functions there: the server refuses a plan that has one, also in a
// part that is never executed.
func TestExactTypes(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	admin := dial(t, url)
	role := newRole(t, admin)
	reopen(t, admin, nil).(*pgstore.Store).Close()
	exec(t, admin, pgstore.Grants("", pgstore.Roles{Engine: role, Retention: role}))
	setTraps(t, url, "hostile")
	exec(t, admin, "revoke all on all functions in schema hostile from public")
	conn := dialWith(t, url, func(c *pgx.ConnConfig) {
		c.RuntimeParams["role"] = role
		c.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	})
	plan := func(sql string) error {
		return conn.AcquireFunc(t.Context(), func(c *pgxpool.Conn) error {
			d, err := c.Conn().Prepare(t.Context(), "planned", sql)
			if err != nil {
				return err
			}
			args := ""
			if n := len(d.ParamOIDs); n > 0 {
				args = "(null" + strings.Repeat(", null", n-1) + ")"
			}
			_, err = c.Exec(t.Context(), "explain execute planned"+args)
			return errors.Join(err, c.Conn().Deallocate(t.Context(), "planned"))
		})
	}
	for _, sql := range pgstore.Statements() {
		if err := plan(sql); err != nil && !strings.Contains(err.Error(), "explain") {
			t.Errorf("%v in\n%s", err, sql)
		}
	}
	names := value[[]string](t, admin, `select pg_catalog.array_agg(f.name) from (
		select proname::text as name from pg_catalog.pg_proc where pronamespace = 'pg_catalog'::regnamespace
			and proname not in ('min', 'max') -- which have exact ones
		group by 1 having bool_or(exists (select from pg_catalog.pg_type t where t.oid = any(proargtypes::oid[]) and t.typtype = 'p'))
	) f`)
	anyType := regexp.MustCompile(`(?:^|[^.\w"])(?:` + strings.Join(names, "|") + `)\(`)
	several := regexp.MustCompile(`\bunnest\((?:[^(),]|\[[^\]]*\]|\([^()]*\))+,|\bcount\(\*`) // forms of the grammar, and no arguments
	for _, sql := range append(pgstore.Statements(), "select unnest($1::text[])") {
		if found := anyType.FindString(several.ReplaceAllString(sql, "")); (found != "") != (len(sql) < 30) {
			t.Errorf("%q has no schema in\n%.60s", found, sql)
		}
	}
	for _, bad := range []string{
		"select $1::bigint * interval '1 microsecond'", "select $1::int <@ 3", "select $1::text[] = '{}'", "select jsonb_set($1::jsonb, '{a}', $1::jsonb)",
		"select $1::json ->> 'a'", "select left($1::text, $2::bigint::int2)", "select $1::numeric + 1",
	} {
		if err := plan(bad); err == nil || !strings.Contains(err.Error(), "permission denied for function") && !strings.Contains(err.Error(), "type json") {
			t.Errorf("%s: %v, want that a hostile function is refused", bad, err)
		}
	}
	if role := value[bool](t, conn, "select is_called from hostile.sprung"); role {
		t.Error("hostile code was run")
	}
}

// TestSearchPathRefused has sessions in which a schema comes before pg_catalog: the pool's from
// their beginning, or from a later connection on, and that of a caller's transaction. Each is refused
// before any other statement is executed, with what to do.
func TestSearchPathRefused(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	reopen(t, dial(t, url), nil).(*pgstore.Store).Close()
	setTraps(t, url, "public")
	along := func(path string) *pgxpool.Pool {
		return dialWith(t, url, func(c *pgx.ConnConfig) { c.RuntimeParams["search_path"] = path })
	}
	const says = "leads to {hostile,pg_catalog"
	refused := along("hostile, pg_catalog")
	_, err := pgstore.New(t.Context(), refused, nil)
	wants(t, err, says)
	wants(t, err, "alter role")
	_, err = pgstore.Migrate(t.Context(), refused, nil)
	wants(t, err, says)
	_, err = pgstore.Status(t.Context(), refused, "")
	wants(t, err, says)
	for _, path := range []string{"hostile", "", "pg_catalog, hostile", "pg_temp, hostile"} {
		s, err := pgstore.New(t.Context(), along(path), nil)
		if err != nil {
			t.Errorf("search_path %q: %v", path, err)
			continue
		}
		s.Close()
	}

	// Of a pool whose later connections have another path.
	var later atomic.Bool
	pool := dialWith(t, url, func(c *pgx.ConnConfig) {
		c.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
			if !later.Load() {
				return nil
			}
			return conn.Exec(ctx, "set search_path = hostile, pg_catalog").Close()
		}
	})
	s, err := pgstore.New(t.Context(), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	oneExecution(t, s)
	for _, n := range []int{1, 2, manyToCopy} { // each is sent in another way
		tx := begin(t, pool, pgx.ReadCommitted)
		if _, err := tx.Exec(t.Context(), "create temp table x (n int) on commit drop; set local search_path = pg_temp, hostile, pg_catalog"); err != nil {
			t.Fatal(err)
		}
		list := make([]store.NewExecution, n)
		for i := range list {
			list[i] = newExecution("odd")
		}
		_, err = s.EnqueueTx(t.Context(), tx, list)
		wants(t, err, "hostile,pg_catalog")
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	later.Store(true)
	pool.Reset()
	_, err = s.Executions(t.Context(), store.Filter{Limit: 1})
	wants(t, err, says)
	wants(t, s.Set(t.Context(), "a", "b"), says)
	if value[bool](t, along("public"), "select is_called from hostile.sprung") {
		t.Error("hostile code was run")
	}
}

// TestSearchPathBehindBouncer has other clients of a PgBouncer in transaction mode change the
// path of the server's sessions, which it lends to the store too: whatever the store sends
// there is refused by the statement itself. Afterwards the same store goes on.
func TestSearchPathBehindBouncer(t *testing.T) {
	t.Parallel()
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			url := pgtest.URL(t)
			direct := dial(t, url)
			reopen(t, direct, nil).(*pgstore.Store).Close()
			setTraps(t, url, "public")
			bouncer := pgtest.Bouncer(t, url)
			s, err := pgstore.New(t.Context(), newPool(t, bouncer, mode), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			define(t, s, "j")
			all := func(path string) {
				t.Helper()
				var open []pgx.Tx
				for range 20 { // as many as PgBouncer has
					conn, err := pgx.Connect(t.Context(), bouncer+"&default_query_exec_mode=exec")
					if err != nil {
						t.Fatal(err)
					}
					defer conn.Close(context.WithoutCancel(t.Context()))
					tx, err := conn.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if _, err := tx.Exec(t.Context(), "set search_path = "+path); err != nil {
						t.Fatal(err)
					}
					open = append(open, tx)
				}
				for _, tx := range open {
					if err := tx.Commit(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			list := func(n int) []store.NewExecution {
				all := make([]store.NewExecution, n)
				for i := range all {
					all[i] = newExecution("j")
				}
				return all
			}
			if err := s.Set(t.Context(), store.LimitSetting(""), "1"); err != nil {
				t.Fatal(err)
			}
			held := enqueueOne(t, s, newExecution("j")).ID
			got, err := s.Claim(t.Context(), request("w", 1)) // under a limit
			if err != nil || len(got.List) != 1 {
				t.Fatalf("%d claimed, %v", len(got.List), err)
			}
			claimed := got.List[0]
			calls := map[string]func(context.Context) error{
				"a statement":      func(ctx context.Context) error { _, err := s.Executions(ctx, store.Filter{Limit: 1}); return err },
				"a row":            func(ctx context.Context) error { _, err := s.Execution(ctx, held); return err },
				"one without rows": func(ctx context.Context) error { return s.Set(ctx, "a", "b") },
				"a transaction": func(ctx context.Context) error {
					_, err := s.Save(ctx, store.Definition{Kind: store.Job, Name: rand.Text(), Body: json.RawMessage(`{}`)})
					return err
				},
				"one execution":         func(ctx context.Context) error { _, err := s.Enqueue(ctx, list(1)); return err },
				"two executions":        func(ctx context.Context) error { _, err := s.Enqueue(ctx, list(2)); return err },
				"many executions":       func(ctx context.Context) error { _, err := s.Enqueue(ctx, list(manyToCopy)); return err },
				"a claim under a limit": func(ctx context.Context) error { _, err := s.Claim(ctx, request("w", 1)); return err },
				"a renewal": func(ctx context.Context) error {
					_, err := s.Renew(ctx, store.RenewRequest{Worker: "w", For: time.Minute, Leases: []store.Lease{{Execution: held, Token: claimed.Token}}})
					return err
				},
			}
			for name, call := range calls {
				if err := call(t.Context()); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			all("hostile, pg_catalog")
			for name, call := range calls {
				if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "leads to {hostile,pg_catalog") {
					t.Errorf("%s: %v, want that the path is refused", name, err)
				}
			}
			if value[bool](t, direct, "select is_called from hostile.sprung") {
				t.Error("hostile code was run")
			}
			all(`"$user", public`)
			for name, call := range calls {
				if err := call(t.Context()); err != nil {
					t.Errorf("%s, afterwards: %v", name, err)
				}
			}
		})
	}
}

// TestReader has a role that may read do everything.
func TestReader(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s := open(t, url, nil)
	id := oneExecution(t, s)
	admin := dial(t, url)
	role := newRole(t, admin)
	exec(t, admin, pgstore.Grants("", pgstore.Roles{Reader: role}))
	r, err := pgstore.New(t.Context(), rolePool(t, url, role), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if x, err := r.Execution(t.Context(), id); err != nil || x.ID != id {
		t.Errorf("execution %v, %v", x.ID, err)
	}
	if _, err := r.Audit(t.Context(), store.AuditFilter{Execution: id, Limit: 10}); err != nil {
		t.Error(err)
	}
	health(t, r)
	wants(t, r.Set(t.Context(), "a", "b"), "permission denied")
	_, err = r.Enqueue(t.Context(), []store.NewExecution{{ID: "00000000-0000-7000-8000-000000000001", Job: "odd", Version: 1, Queue: "q"}})
	wants(t, err, "permission denied")
	_, err = r.Claim(t.Context(), store.ClaimRequest{Worker: "w", Queues: []string{"q"}, Max: 1, Lease: time.Minute})
	wants(t, err, "permission denied")
	list := value[[]string](t, admin, `select array_agg(distinct privilege_type::text) from information_schema.role_table_grants where grantee = $1`, role)
	if !slices.Equal(list, []string{"SELECT"}) {
		t.Errorf("a reader may %q", list)
	}
}

// TestGrantsInDocs compares docs/grants.sql with what Grants returns. With -update
// it writes the file.
func TestGrantsInDocs(t *testing.T) {
	const file = "../../docs/grants.sql"
	want := grantsHead + "\n-- An administrator, before pgstore.Migrate.\n" + pgstore.Grants("", pgstore.Roles{Owner: "courier_owner"})
	for _, r := range []struct {
		what  string
		roles pgstore.Roles
	}{
		{"The owner, after each Migrate: an engine, or a client that enqueues and asks.", pgstore.Roles{Engine: "courier_engine"}},
		{"What removes executions.", pgstore.Roles{Retention: "courier_retention"}},
		{"What only reads.", pgstore.Roles{Reader: "courier_reader"}},
	} {
		want += "\n-- " + r.what + "\n" + pgstore.Grants("", r.roles)
	}
	if *updateGrants {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || string(got) != want {
		t.Errorf("%s is not what Grants returns, %v; write it with -update", file, err)
	}
}

var updateGrants = flag.Bool("update", false, "write docs/grants.sql")

const grantsHead = `-- The rights of roles on the schema "courier", as pgstore.Grants returns them; the
-- roles must exist (create role courier_engine login ...). See "Rights" in postgres.md.
`
