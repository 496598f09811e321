package depot_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/lockedbuffer"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// A house is one store with an engine, whose depot may be that of others.
type house struct {
	*testing.T
	store *memstore.Store
	e     *engine.Engine
	files *depot.Directory
	log   lockedbuffer.Buffer
}

func newHouse(t *testing.T, dir string) *house {
	t.Helper()
	h := &house{T: t, store: memstore.New()}
	var err error
	h.files, err = depot.Dir(dir, nil)
	must(t, err)
	reg := new(courier.Registry)
	depot.Register(reg, h.files, &depot.Retention{Every: 10 * time.Minute})
	h.e = engine.New(h.store, reg, &engine.Options{Workspace: t.TempDir(), Log: logger(&h.log)})
	_, err = h.e.Jobs().Define(t.Context(), courier.Job{Name: "fetch", Steps: []courier.StepSpec{{Type: "depot.fetch"}}}, nil)
	must(t, err)
	must(t, h.e.Start(t.Context()))
	t.Cleanup(func() { h.files.Close() })
	synctest.Wait()
	return h
}

func (h *house) stop() { must(h, h.e.Stop(context.WithoutCancel(h.Context()))) }

// upload puts a file into the depot for an execution that is held.
func (h *house) upload(enqueue bool) string {
	h.Helper()
	n, err := h.e.Prepare(h.Context(), "fetch", &courier.EnqueueOptions{Hold: true})
	must(h, err)
	key := depot.InputKey(n.ID, "a")
	p, err := h.files.Create(h.Context(), key)
	must(h, err)
	defer p.Close()
	_, err = p.Write([]byte("a"))
	must(h, err)
	_, err = p.Commit()
	must(h, err)
	if enqueue {
		_, err = h.e.EnqueueAll(h.Context(), []store.NewExecution{n})
		must(h, err)
	}
	return key
}

func (h *house) has(when, key string, want bool) {
	h.Helper()
	all, err := h.files.List(h.Context(), key)
	must(h, err)
	if (len(all) > 0) != want {
		h.Errorf("%s: the file %s is there: %v", when, key, !want)
	}
}

// TestTwoStores: two stores that use one directory leave the files of each other's executions
// alone, and say so once. What a process has uploaded that died before it could enqueue goes,
// and so does what a store kept that is gone for good.
func TestTwoStores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		a, b := newHouse(t, dir), newHouse(t, dir)
		defer a.stop()
		ofA, ofB, dead := a.upload(true), b.upload(true), a.upload(false)
		time.Sleep(26 * time.Hour)
		synctest.Wait()
		a.has("after a day", ofA, true)
		a.has("after a day", ofB, true)
		a.has("after a day", dead, false)
		idOfA, err := a.e.Executions().StoreID(t.Context())
		must(t, err)
		idOfB, err := b.e.Executions().StoreID(t.Context())
		must(t, err)
		const said = "files are kept, because"
		if log := a.log.String(); strings.Count(log, said) != 1 || !strings.Contains(log, "stores="+idOfB) || idOfA == idOfB {
			t.Errorf("a says %s", log)
		}
		b.stop()
		time.Sleep(5 * 24 * time.Hour)
		synctest.Wait()
		a.has("while b is away", ofB, true)
		if log := a.log.String(); strings.Count(log, said) != 1 {
			t.Errorf("a says it again: %s", log)
		}
		must(t, os.Remove(filepath.Join(dir, "stores", idOfB)))
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		a.has("when b is gone", ofB, false)
		a.has("when b is gone", ofA, true)
	})
}

// TestFilesOfNoStore: who has put a file there is not known, as before there were ids. Retention
// removes it only as long as no other store uses the directory.
func TestFilesOfNoStore(t *testing.T) {
	for others, stays := range map[bool]bool{false: false, true: true} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			old, err := depot.Dir(dir, nil)
			must(t, err)
			key := depot.InputKey("0198c0df-0000-7000-8000-000000000001", "a")
			p, err := old.Create(t.Context(), key)
			must(t, err)
			_, err = p.Commit()
			must(t, err)
			must(t, old.Close())
			a := newHouse(t, dir)
			defer a.stop()
			if others {
				b := newHouse(t, dir)
				defer b.stop()
			}
			time.Sleep(26 * time.Hour)
			synctest.Wait()
			a.has("in the end", key, stays)
		})
	}
}
