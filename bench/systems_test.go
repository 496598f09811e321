package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	backend "github.com/cschleiden/go-workflows/backend/history"
)

// shared is the server of all tests but that of the whole program.
var shared struct {
	once sync.Once
	srv  *server
	err  error
}

// TestMain makes the test binary the process of a pipeline too, as main does.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == pipelineArg {
		if err := runPipeline(context.Background(), os.Stdin, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if shared.srv != nil {
		if err := shared.srv.close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// small is a harness for tests, whose turns are short.
func small(t *testing.T) *harness {
	t.Helper()
	shared.once.Do(func() { shared.srv, shared.err = openServer(context.Background()) })
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	h := newHarness(shared.srv, true, io.Discard)
	h.turn, h.rounds = 100*time.Millisecond, 1
	return h
}

// Every system really does what is measured: each execution has a record of
// each step, and nothing is open at the end.
func TestSystems(t *testing.T) {
	h := small(t)
	const n = 12
	for who, records := range map[string]string{
		courierName: `select count(*) from courier.step_executions s join courier.job_executions e on e.id = s.execution_id
			where e.state = 'completed' and s.state = 'completed'`,
		"raw":            "select count(*) from step s join execution e on e.id = s.execution_id where e.state = 'completed'",
		"raw-history":    "select count(*) from history s join execution e on e.id = s.execution_id where e.state = 'completed' and s.ended_step is not null",
		"raw-history-2":  "select count(*) from history s join execution e on e.id = s.execution_id where e.state = 'completed' and s.ended_step is not null",
		"river":          "select count(*) from river_job where state = 'completed'",
		"river-defaults": "select count(*) from river_job where state = 'completed'",
		"dbos": `select count(*) from dbos.operation_outputs o join dbos.workflow_status s using (workflow_uuid)
			where s.status = 'SUCCESS'`,
		"go-workflows": fmt.Sprintf(`select count(*) from history h join instances i using (instance_id, execution_id)
			where i.completed_at is not null and h.event_type = %d`, backend.EventType_ActivityCompleted),
	} {
		t.Run(who, func(t *testing.T) {
			l := load{steps: 3, at: 4}
			if strings.HasPrefix(who, "river") {
				l.steps = 1
			}
			m, db, err := h.fresh(t.Context(), who)
			if err != nil {
				t.Fatal(err)
			}
			defer db.drop()
			sys, err := m.open(t.Context(), db, l, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer sys.close()
			if err := sys.fill(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			r, err := sys.run(t.Context(), n)
			if err != nil || r.executions != n || r.spent <= 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			var got int
			if err := db.pool.QueryRow(t.Context(), records).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if got != n*l.steps {
				t.Errorf("%d records of steps, want %d", got, n*l.steps)
			}
		})
	}
}

// The audit of the statements written by hand has an entry for each claim and
// each step, without gaps.
func TestRawAudit(t *testing.T) {
	h := small(t)
	m, db, err := h.fresh(t.Context(), "raw")
	if err != nil {
		t.Fatal(err)
	}
	defer db.drop()
	sys, err := m.open(t.Context(), db, load{steps: 1, at: 8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.close()
	if err := sys.fill(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.run(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
	var executions, entries int
	err = db.pool.QueryRow(t.Context(), "select count(distinct execution_id), count(*) from audit where seq in (2, 3)").Scan(&executions, &entries)
	if err != nil || executions != 100 || entries != 200 {
		t.Errorf("%d entries of %d executions, %v", entries, executions, err)
	}
}

// What is copied into the tables is finished, has its own identity, and hides
// nothing from those who work.
func TestHistory(t *testing.T) {
	h := small(t)
	defer h.close()
	h.quick = false
	const n = 2000
	for _, size := range []int{n / 2, n} {
		db, err := h.withPast(t.Context(), courierName, size)
		if err != nil {
			t.Fatal(err)
		}
		var executions, steps, audited int
		err = db.pool.QueryRow(t.Context(), `select (select count(*) from courier.job_executions where state = 'completed'),
			(select count(distinct execution_id) from courier.step_executions),
			(select count(distinct execution_id) from courier.execution_history where state_to = 'completed')`).Scan(&executions, &steps, &audited)
		if err != nil || executions != size+1 || steps != size+1 || audited != size+1 {
			t.Errorf("%d executions, %d with steps, %d with an audit, %v, want %d", executions, steps, audited, err, size+1)
		}
	}
	sys, err := openCourier(t.Context(), h.past.db, load{steps: 2, at: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.close()
	if err := sys.fill(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	if err := h.past.db.settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	read := func() (rows int) {
		t.Helper()
		if _, err := h.past.db.counted(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := h.past.db.pool.QueryRow(t.Context(), "select seq_tup_read from pg_stat_user_tables where relname = 'job_executions'").Scan(&rows)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	sys.close()
	before := read()
	if sys, err = openCourier(t.Context(), h.past.db, load{steps: 2, at: 2}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := sys.run(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	sys.close()
	if scanned := read() - before; scanned > n/2 {
		t.Errorf("while 5 executions ran beside %d finished ones, %d rows were scanned", n, scanned)
	}
}

// A rate is that of a run which the start of the system and a single delay don't
// decide.
func TestRateOfShortRuns(t *testing.T) {
	h := newHarness(nil, true, io.Discard)
	for turn := range 3 {
		runs := 0
		rate, err := h.steady("key", 1, func(n int) (ran, error) {
			runs++
			spent := 80*time.Millisecond + time.Duration(n)*time.Millisecond
			if runs == 1 {
				spent += 150 * time.Millisecond
			}
			return ran{float64(n), spent}, nil
		})
		if err != nil || rate < 800 || runs > 6 {
			t.Errorf("turn %d: %.0f executions/s after %d runs, %v, where one takes 1 ms", turn, rate, runs, err)
		}
	}
}

// The whole program measures something, and writes it to a file.
func TestCommand(t *testing.T) {
	var table, progress strings.Builder
	file := filepath.Join(t.TempDir(), "out.json")
	if err := command(t.Context(), []string{"-quick", "-only", "copy-1g", "-peers", "none", "-json", file}, &table, &progress); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got []result
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Bench != "copy-1g" || got[0].Peer != "" || got[0].Courier <= 0 || got[0].Ratio != nil {
		t.Errorf("%s", text)
	}
	if n := strings.Count(table.String(), "\n"); n != 2 || !strings.Contains(progress.String(), "copy-1g: 1/3 courier: ") {
		t.Errorf("%s%s", table.String(), progress.String())
	}
	for _, args := range [][]string{{"-only", "("}, {"-only", "nothing"}, {"-peers", "nobody"}, {"-unknown"}} {
		if err := command(t.Context(), args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// Each bench measures Courier once, and the peers of which something else is measured
// than in TestSystems. Empty tables are those of the bench without a history. The benches of
// files have tests of their own; rclone and lftp are not needed.
func TestBenches(t *testing.T) {
	h := small(t)
	h.least, h.turn = true, 5*time.Millisecond
	defer func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}()
	var elsewhere []string
	for _, b := range slices.Concat(archives(), pgpBenches(), pipelines()) {
		elsewhere = append(elsewhere, b.name)
	}
	own := regexp.MustCompile("^(latency|enqueue|pickup)-") // of other systems
	out := []string{rclone, lftpName, lftpFour, emptyTables}
	systems := makers()
	for _, b := range benches() {
		if slices.Contains(elsewhere, b.name) {
			continue
		}
		t.Run(b.name, func(t *testing.T) {
			for _, who := range append([]string{courierName}, b.peers...) {
				_, system := systems[who]
				if slices.Contains(out, who) || system && who != courierName && !own.MatchString(b.name) {
					continue
				}
				v, err := b.turn(t.Context(), h, who)
				if err != nil || len(v) != len(b.figures) {
					t.Fatalf("%s: %v for %d figures, %v", who, v, len(b.figures), err)
				}
				for i, f := range b.figures {
					// Nothing may be completed in a part of so short a time, and no row be dead.
					if v[i] < 0 || v[i] == 0 && f.name != "dead" && !strings.HasPrefix(b.name, "xmin-") {
						t.Errorf("%s: %s is %v", who, b.full(f), v[i])
					}
				}
			}
		})
	}
}

// A step has its price: a commit is shared by at most as many steps as there
// are executions at once, and a step leaves a few hundred bytes of WAL and
// uses the processors, however many steps went before.
func TestCosts(t *testing.T) {
	h := small(t)
	const at = 4
	v, err := h.costs(t.Context(), courierName, load{steps: 5, at: at}, 5)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		name     string
		from, to float64
	}{
		{"wal", 200, 5000}, {"commits", 1.0 / at, 5}, {"trips", 1.0 / at, 10}, {"dead tuples", 0, 3},
		{"client", 1, 100_000}, {"server", 1, 100_000},
	} {
		if v[i] < c.from || v[i] > c.to {
			t.Errorf("%s: %v per step, want between %v and %v", c.name, v[i], c.from, c.to)
		}
	}
	early, late, err := h.growth(t.Context(), 60, 20)
	if err != nil || early < 200 || late > 1.2*early {
		t.Errorf("%v bytes of WAL for a step at the begin, %v at the end, %v", early, late, err)
	}
}
