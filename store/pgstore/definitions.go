package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/pgstore/internal/pgnotify"
)

// readCommitted is the isolation of the store's transactions, whatever the default is, because
// later statements must see what others have committed.
var readCommitted = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// Save keeps d as the next version of its name.
func (s *Store) Save(ctx context.Context, d store.Definition) (store.Definition, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Definition{}, err
	}
	// Every process saves its jobs when it starts, and most of them exist already.
	if latest, err := s.Load(ctx, d.Kind, d.Name, 0); err == nil && bytes.Equal(latest.Body, d.Body) {
		return latest, nil
	}
	if d.Removed() {
		return s.remove(ctx, d)
	}
	upstreams := store.Upstreams(&d)
	err := s.markUpstreams(ctx, d.Name, upstreams)
	var body string
	if err == nil {
		err = repeat(ctx, func() error {
			return s.pool.inTransaction(ctx, func(tx pgx.Tx) error { return s.save(ctx, tx, &d, upstreams, &body) })
		})
	}
	if a, ok := errors.AsType[contractError](err); ok {
		return store.Definition{}, a.error
	}
	if err != nil {
		return store.Definition{}, failed(fmt.Sprintf("save %s %q", d.Kind, d.Name), err)
	}
	d.Body, d.SavedAt = json.RawMessage(body), d.SavedAt.UTC()
	d.Base, d.KeepNewer = nil, false
	return d, nil
}

// save saves d and its dependencies.
func (s *Store) save(ctx context.Context, tx pgx.Tx, d *store.Definition, upstreams []string, body *string) error {
	if len(upstreams) > 0 {
		if err := s.lockSaves(ctx, tx); err != nil {
			return err
		}
		if _, err := s.dependents(ctx, tx, d.Name, upstreams); err != nil { // a job was removed in the meantime
			return err
		}
	}
	var id int32
	if err := tx.QueryRow(ctx, s.sql("definition/lock_or_create"), string(d.Kind), d.Name).Scan(&id); err != nil {
		return err
	}
	if kept, err := s.saveBase(ctx, tx, id, d, body); kept || err != nil {
		return err
	}
	if d.Kind == store.Job {
		if err := s.saveDependencies(ctx, tx, id, d.Name, upstreams); err != nil {
			return err
		}
	}
	return tx.QueryRow(ctx, s.sql("definition/save_version"), id, string(d.Body), d.By).Scan(&d.Version, body, &d.By, &d.SavedAt)
}

// saveBase checks the conditions under which d is saved. If a newer version exists, it reports
// that, and d becomes that version.
func (s *Store) saveBase(ctx context.Context, tx pgx.Tx, id int32, d *store.Definition, body *string) (kept bool, err error) {
	if d.Base == nil && !d.KeepNewer {
		return false, nil
	}
	var latest int
	var same, known, removed bool
	if err := tx.QueryRow(ctx, s.sql("definition/compare_body"), id, string(d.Body)).Scan(&latest, &same, &known, &removed); err != nil || same {
		return false, err
	}
	switch {
	case d.KeepNewer && known:
		err = tx.QueryRow(ctx, s.sql("definition/load_by_id"), id, int32(latest)).Scan(&d.Kind, &d.Name, &d.Version, body, &d.By, &d.SavedAt)
		return err == nil, err
	case d.Base != nil && *d.Base != latest && (*d.Base != 0 || !removed):
		return false, contractError{d.ErrBase(latest)}
	}
	return false, nil
}

// Load returns a version of a definition, the latest for version 0.
func (s *Store) Load(ctx context.Context, kind store.Kind, name string, version int) (store.Definition, error) {
	if err := s.checkOpen(ctx); err != nil {
		return store.Definition{}, err
	}
	d := store.Definition{Kind: kind, Name: name}
	var body string
	err := s.pool.QueryRow(ctx, s.sql("definition/load"), string(kind), name, int32(version)).Scan(&d.Version, &body, &d.By, &d.SavedAt)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return store.Definition{}, courier.Errorf(courier.ErrNotFound, "there is no %s %q version %d", kind, name, version)
	case err != nil:
		return store.Definition{}, failed(fmt.Sprintf("load %s %q", kind, name), err)
	}
	d.Body, d.SavedAt = json.RawMessage(body), d.SavedAt.UTC()
	return d, nil
}

// defaultLimit is how many entries a list has when no limit is given.
const defaultLimit = 1000

// List returns the latest versions of the definitions of a kind.
func (s *Store) List(ctx context.Context, f store.DefinitionFilter) ([]store.Definition, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (store.Definition, error) {
		d := store.Definition{Kind: f.Kind}
		var body *string
		err := rows.Scan(&d.Name, &d.Version, &body, &d.By, &d.SavedAt)
		d.Body, d.SavedAt = raw(body), d.SavedAt.UTC()
		return d, err
	}, s.sql("definition/list"), string(f.Kind), f.After, int64(limit), f.Brief)
	if err != nil {
		return nil, failed(fmt.Sprintf("list definitions of kind %q", f.Kind), err)
	}
	return list, nil
}

// query returns the results of scan for the rows of a query.
func query[T any](ctx context.Context, db pgnotify.Querier, scan func(pgx.Rows) (T, error), sql string, args ...any) ([]T, error) {
	var list []T
	err := repeat(ctx, func() error {
		list = nil
		rows, err := db.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		return rows.Err()
	})
	return list, err
}

// Settings returns a page of settings.
func (s *Store) Settings(ctx context.Context, f store.SettingFilter) ([]store.Setting, error) {
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	if f.Limit <= 0 {
		f.Limit = defaultLimit
	}
	list, err := query(ctx, s.pool, func(rows pgx.Rows) (x store.Setting, err error) {
		return x, rows.Scan(&x.Name, &x.Value)
	}, s.sql("setting/list"), f.Prefix, f.After, int64(f.Limit))
	if err != nil {
		return nil, failed("list settings", err)
	}
	return list, nil
}

// Set changes a setting; an empty value removes it.
func (s *Store) Set(ctx context.Context, key, value string) error {
	if err := s.checkOpen(ctx); err != nil {
		return err
	}
	if err := store.CheckSetting(key, value); err != nil {
		return err
	}
	err := repeat(ctx, func() error {
		_, err := s.pool.Exec(ctx, s.sql("setting/set"), key, value)
		return err
	})
	if err != nil {
		return failed(fmt.Sprintf("set %q", key), err)
	}
	s.notifier.Queues.WakeAll()
	s.notifier.AnyQueueChanged()
	return nil
}

// definitions caches versions of definitions, which never change, and the names of definitions.
type definitions struct {
	mu       sync.Mutex
	names    map[int32]string
	versions map[versionOf]store.Definition
}

type versionOf struct{ id, version int32 }

// maxDefinitions is the number of versions in the cache.
const maxDefinitions = 1000

// definition returns a version of a definition by its id.
func (s *Store) definition(ctx context.Context, id, version int32) (store.Definition, error) {
	c := &s.definitions
	key := versionOf{id, version}
	c.mu.Lock()
	d, ok := c.versions[key]
	c.mu.Unlock()
	if ok {
		return d, nil
	}
	var body string
	var at time.Time
	err := s.pool.QueryRow(ctx, s.sql("definition/load_by_id"), id, version).Scan(&d.Kind, &d.Name, &d.Version, &body, &d.By, &at)
	if err != nil {
		return d, failed(fmt.Sprintf("load version %d of definition %d", version, id), err)
	}
	d.Body, d.SavedAt = json.RawMessage(body), at.UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.versions) >= maxDefinitions || c.versions == nil {
		c.versions = make(map[versionOf]store.Definition)
	}
	c.versions[key] = d
	return d, nil
}

// withJobNames returns the executions of rows, with the names of their jobs.
func (s *Store) withJobNames(ctx context.Context, db querier, rows []row) ([]courier.Execution, error) {
	c := &s.definitions
	names := make(map[int32]string)
	var unknown []int32
	c.mu.Lock()
	for i := range rows {
		id := rows[i].definition
		if name, ok := c.names[id]; ok {
			names[id] = name
		} else if _, asked := names[id]; !asked {
			names[id] = ""
			unknown = append(unknown, id)
		}
	}
	c.mu.Unlock()
	if len(unknown) > 0 {
		_, err := query(ctx, db, func(rows pgx.Rows) (none struct{}, err error) {
			var id int32
			var name string
			err = rows.Scan(&id, &name)
			names[id] = name
			return none, err
		}, s.sql("definition/list_names"), unknown)
		if err != nil {
			return nil, failed("read the names of jobs", err)
		}
		c.mu.Lock()
		if c.names == nil {
			c.names = make(map[int32]string)
		}
		for _, id := range unknown {
			c.names[id] = names[id]
		}
		c.mu.Unlock()
	}
	list := make([]courier.Execution, len(rows))
	for i := range rows {
		x, err := rows[i].execution(names[rows[i].definition])
		if err != nil {
			return nil, fmt.Errorf("execution %s: %w", rows[i].id, err)
		}
		list[i] = x
	}
	return list, s.addWaits(ctx, db, rows, list)
}
