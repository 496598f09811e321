package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier/internal/test/pgtest"
)

// settings are what a server for measurements has besides the defaults. All
// that is committed is on the disk: fsync and synchronous_commit are on.
var settings = map[string]string{
	"shared_buffers":  "1GB",
	"max_wal_size":    "4GB",
	"max_connections": "300",
}

// A server is where databases for measurements are made.
type server struct {
	url       string
	cluster   *pgtest.Cluster // nil for a server that was there before
	admin     *pgxpool.Pool
	prefix    string // of the names of databases
	made      int
	templates map[string]string // names of databases, by that of the system in them
}

// openServer starts a server, or connects to the one that the environment
// names.
func openServer(ctx context.Context) (*server, error) {
	s := &server{
		url:       os.Getenv("COURIER_TEST_DATABASE"),
		prefix:    "courier_bench_" + strings.ToLower(rand.Text()[:8]) + "_",
		templates: make(map[string]string),
	}
	if s.url == "" {
		c, err := pgtest.Open(&pgtest.Options{Config: settings})
		if err != nil {
			return nil, fmt.Errorf("postgres: %w", err)
		}
		s.cluster, s.url = c, c.URL("")
	}
	var err error
	if s.admin, err = newPool(ctx, s.url, 2, nil); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// close removes what was made on the server, and the server if it was started
// here.
func (s *server) close() error {
	var err error
	if s.admin != nil {
		for _, name := range s.templates {
			err = errors.Join(err, s.drop(name))
		}
		s.admin.Close()
	}
	if s.cluster != nil {
		err = errors.Join(err, s.cluster.Close())
	}
	return err
}

// A database is one in which a contestant works.
type database struct {
	url string
	srv *server
	// pool is the harness's own, for what it has to look up.
	pool  *pgxpool.Pool
	name  string
	looks int // how often it was asked whether work is open
	// waiting is how many executions were enqueued that nobody has worked on.
	waiting int
}

// fresh makes a database in which a system has its tables and nothing else.
// Migrate makes them, in another database that is the template of all others
// for that system.
func (s *server) fresh(ctx context.Context, system string, migrate func(ctx context.Context, url string) error) (*database, error) {
	template, ok := s.templates[system]
	if !ok {
		template = s.prefix + strings.ReplaceAll(system, "-", "_")
		if err := s.create(ctx, template, "template0"); err != nil {
			return nil, err
		}
		s.templates[system] = template
		if err := migrate(ctx, s.to(template)); err != nil {
			return nil, fmt.Errorf("tables of %s: %w", system, err)
		}
	}
	s.made++
	name := fmt.Sprintf("%s%d", s.prefix, s.made)
	if err := s.create(ctx, name, template); err != nil {
		return nil, err
	}
	db := &database{url: s.to(name), srv: s, name: name}
	// The harness looks for open work by an index, also where the planner, which knows
	// how much was open when the run began, would read all that is done.
	var err error
	if db.pool, err = newPool(ctx, withSettings(db.url, "enable_seqscan=off"), 2, nil); err != nil {
		return nil, errors.Join(err, db.drop())
	}
	return db, nil
}

func (s *server) create(ctx context.Context, name, template string) error {
	// Sessions of the template that have just ended may still be there.
	_, err := s.admin.Exec(ctx, "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", template)
	if err != nil {
		return err
	}
	for range 50 {
		if _, err = s.admin.Exec(ctx, "create database "+name+" template "+template); err == nil {
			return nil
		}
		if !strings.Contains(err.Error(), "55006") { // in use
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("create database: %w", err)
}

// drop drops a database, also when the program is being interrupted.
func (s *server) drop(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := s.admin.Exec(ctx, "drop database if exists "+name+" with (force)")
	return err
}

// to returns the URL of a database of the server.
func (s *server) to(name string) string {
	u, err := url.Parse(s.url)
	if err != nil {
		return s.url
	}
	u.Path = "/" + name
	return u.String()
}

// withSettings adds settings of sessions, in the form of a query, to the URL of a
// database.
func withSettings(base, settings string) string {
	if strings.Contains(base, "?") {
		return base + "&" + settings
	}
	return base + "?" + settings
}

func (d *database) drop() error {
	if d.pool != nil {
		d.pool.Close()
	}
	return d.srv.drop(d.name)
}

// settle brings statistics up to date and writes what is waiting to be
// written, so that all begin alike.
func (d *database) settle(ctx context.Context) error {
	if _, err := d.pool.Exec(ctx, "analyze"); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, "checkpoint")
	return err
}

// drained waits until a query that tells whether work is open says no.
func (d *database) drained(ctx context.Context, open string) error {
	looks, err := drained(ctx, d.pool, open)
	d.looks += looks
	return err
}

func drained(ctx context.Context, pool *pgxpool.Pool, open string, args ...any) (looks int, err error) {
	for {
		looks++
		var more bool
		if err := pool.QueryRow(ctx, open, args...).Scan(&more); err != nil {
			return looks, fmt.Errorf("look for open work: %w", err)
		}
		if !more {
			return looks, nil
		}
		select {
		case <-ctx.Done():
			return looks, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// newPool connects to a database. If trips is not nil, it counts the round
// trips.
func newPool(ctx context.Context, url string, most int32, trips *trips) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("url of the database: %w", err)
	}
	config.MaxConns = most
	trips.count(config.ConnConfig)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// execute runs statements that take no arguments on a connection of its own.
func execute(ctx context.Context, url, sql string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}
