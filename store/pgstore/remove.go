package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// How a job or a chain is removed.
//
// If nothing needs the definition, a version that removes it is saved. After its commit, statements
// that create executions skip the definition. A transaction that began to create an execution
// earlier may commit later. So the removal waits for all transactions that have written executions,
// and looks again. If it finds an execution, the Enqueue was first, and the removal saves the
// previous version once more. No Enqueue takes a lock for this. If a process ends in between, the
// definition stays removed, with an execution that goes on in its version. The same holds for a
// caller's transaction with repeatable read that has a snapshot from before the removal.

// remove saves d, which removes a definition.
func (s *Store) remove(ctx context.Context, d store.Definition) (store.Definition, error) {
	failing := func(err error) (store.Definition, error) {
		if a, ok := errors.AsType[contractError](err); ok {
			return store.Definition{}, a.error
		}
		return store.Definition{}, failed(fmt.Sprintf("remove %s %q", d.Kind, d.Name), err)
	}
	var was store.Definition
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) (err error) {
			was, err = s.saveRemoval(ctx, tx, &d)
			return err
		})
	})
	if err != nil {
		return failing(err)
	}
	d.Base, d.KeepNewer = nil, false
	tables := starters[d.Kind]
	if len(tables) == 0 { // it starts nothing
		return d, nil
	}
	if err := s.awaitStarters(ctx, tables); err != nil {
		return failing(errors.Join(err, s.restore(ctx, &d, &was, false)))
	}
	if err := s.restore(ctx, &d, &was, true); err != nil {
		return failing(err)
	}
	return d, nil
}

// starters are the tables to which a transaction writes when it creates an execution of a
// definition.
var starters = map[store.Kind][]string{store.Job: {"job_executions", "chain_members"}, store.Chain: {"chain_executions"}}

// saveRemoval saves d, unless something needs the definition, and returns the previous version.
func (s *Store) saveRemoval(ctx context.Context, tx pgx.Tx, d *store.Definition) (was store.Definition, err error) {
	id, latest, err := s.lockDefinition(ctx, tx, d)
	if err != nil {
		return was, err
	}
	var body string
	err = tx.QueryRow(ctx, s.sql("definition/load_by_id"), id, latest).Scan(&was.Kind, &was.Name, &was.Version, &body, &was.By, &was.SavedAt)
	if was.Body = json.RawMessage(body); err != nil {
		return was, err
	}
	if d.Base != nil && *d.Base != was.Version && !was.Removed() {
		return was, contractError{d.ErrBase(was.Version)}
	}
	if err := s.unneeded(ctx, tx, id, d); err != nil {
		return was, err
	}
	return was, s.saveNext(ctx, tx, id, d, d.Body)
}

// lockDefinition locks an existing definition. If it is a job, no definition that is saved
// meanwhile can depend on it.
func (s *Store) lockDefinition(ctx context.Context, tx pgx.Tx, d *store.Definition) (id, latest int32, err error) {
	if d.Kind == store.Job {
		if err := s.lockSaves(ctx, tx); err != nil {
			return 0, 0, err
		}
	}
	err = tx.QueryRow(ctx, s.sql("definition/lock"), string(d.Kind), d.Name).Scan(&id, &latest)
	if errors.Is(err, pgx.ErrNoRows) {
		err = contractError{courier.Errorf(courier.ErrNotFound, "there is no %s %q", d.Kind, d.Name)}
	}
	return id, latest, err
}

// saveNext saves a body as the next version of a locked definition. D becomes that version.
func (s *Store) saveNext(ctx context.Context, tx pgx.Tx, id int32, d *store.Definition, body json.RawMessage) error {
	if d.Kind == store.Job {
		upstreams := store.Upstreams(&store.Definition{Kind: store.Job, Name: d.Name, Body: body})
		if err := s.saveDependencies(ctx, tx, id, d.Name, upstreams); err != nil {
			return err
		}
	}
	var saved string
	err := tx.QueryRow(ctx, s.sql("definition/save_version"), id, string(body), d.By).Scan(&d.Version, &saved, &d.By, &d.SavedAt)
	d.Body, d.SavedAt = json.RawMessage(saved), d.SavedAt.UTC()
	return err
}

// unneeded returns an error if something needs a definition.
func (s *Store) unneeded(ctx context.Context, db querier, id int32, d *store.Definition) error {
	var find string
	switch d.Kind {
	case store.Job:
		find = s.sql("definition/find_needs_of_job")
	case store.Chain:
		find = s.sql("definition/find_needs_of_chain")
	default:
		return nil
	}
	found, err := query(ctx, db, func(rows pgx.Rows) (by string, err error) {
		var what, name, state string
		err = rows.Scan(&what, &name, &state)
		if by = store.NeededByOpen(what, name, state); what == "job" {
			by = store.NeededByJob(name)
		}
		return by, err
	}, find, id)
	if err == nil && len(found) > 0 {
		err = contractError{d.ErrNeeded(found[0])}
	}
	return err
}

// awaitStarters waits for all transactions that may have created executions of a definition before
// it was removed, by the tables to which they write.
func (s *Store) awaitStarters(ctx context.Context, tables []string) error {
	for _, table := range tables {
		if err := s.awaitOpenWriters(ctx, table); err != nil {
			return err
		}
	}
	return nil
}

// restore saves the version before a removal again, unless the definition was saved in the
// meantime. With only, it does so only if something needs the definition, and returns that as an
// error.
func (s *Store) restore(ctx context.Context, removed, was *store.Definition, only bool) error {
	if was.Removed() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	var needed error
	err := repeat(ctx, func() error {
		return s.pool.inTransaction(ctx, func(tx pgx.Tx) error {
			id, latest, err := s.lockDefinition(ctx, tx, removed)
			if err != nil || int(latest) != removed.Version {
				return err
			}
			if needed = s.unneeded(ctx, tx, id, removed); needed == nil && only {
				return nil
			}
			if _, ok := needed.(contractError); !ok && needed != nil { //nolint:errorlint // it is never wrapped
				return needed
			}
			again := *removed
			return s.saveNext(ctx, tx, id, &again, was.Body)
		})
	})
	return errors.Join(err, needed)
}
