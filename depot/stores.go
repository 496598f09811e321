package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
)

const storesDir = "stores"

// stores lists the stores whose executions have files in a [Directory].
type stores struct {
	mu    sync.Mutex
	id    string // of the store of this process; empty before it is known
	mixed bool   // there are several in this process, so that nobody knows whose a new file is
}

// own returns the id of the store for which this process keeps files; it is empty if the id is
// not known.
func (s *stores) own() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mixed {
		return ""
	}
	return s.id
}

var storeIDForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// enter records that a store has executions with files in the directory.
func (d *Directory) enter(id string) error {
	if !storeIDForm.MatchString(id) {
		return courier.Errorf(courier.ErrInvalid, `depot: the id of the store has %d bytes, and must be 1 to 64 letters, digits, "-" and "_"`, len(id))
	}
	d.stores.mu.Lock()
	known := d.stores.id == id
	d.stores.mixed = d.stores.mixed || d.stores.id != "" && !known
	d.stores.id = id
	d.stores.mu.Unlock()
	name := path.Join(storesDir, id)
	if _, err := d.root.Lstat(name); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.root.OpenFile(name, os.O_CREATE|os.O_WRONLY|localfile.Nonblock, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.syncDir(storesDir))
}

// entered returns the ids of the recorded stores.
func (d *Directory) entered() (map[string]bool, error) {
	entries, err := d.readDir(storesDir)
	ids := make(map[string]bool)
	for _, e := range entries {
		if storeIDForm.MatchString(e.Name()) {
			ids[e.Name()] = true
		}
	}
	return ids, err
}

// identify records which stores have executions in the depot, including its own store.
func (c *cleaner) identify(ctx context.Context) (err error) {
	dir, ok := c.depot.(*Directory)
	if !ok {
		return nil
	}
	if x, ok := c.x.(identified); ok {
		if c.store, err = x.StoreID(ctx); err != nil {
			return fmt.Errorf("depot: %w", err)
		}
	}
	if c.store != "" {
		if err := dir.enter(c.store); err != nil {
			return fmt.Errorf("depot: %w", err)
		}
	}
	c.stores, err = dir.entered()
	return err
}

// isAnothers reports whether the execution of files that is unknown to this store may be in
// another store.
func (c *cleaner) isAnothers(id courier.ExecutionID, files []Info) bool {
	others := maps.Clone(c.stores)
	delete(others, c.store)
	for _, f := range files {
		if f.Store == "" {
			continue
		}
		if !others[f.Store] {
			return false // the execution was in this store, or in one that is gone
		}
		others = map[string]bool{f.Store: true}
	}
	if len(others) == 0 {
		return false
	}
	c.left[id] = strings.Join(slices.Sorted(maps.Keys(others)), ", ")
	return true
}

// tellLeft logs once which files are left alone.
func (c *cleaner) tellLeft() {
	for id := range c.left {
		if _, there := c.next[id]; !there {
			delete(c.left, id)
		}
	}
	whose := slices.Sorted(maps.Values(c.left))
	text := strings.Join(slices.Compact(whose), ", ")
	if text != "" && text != c.said {
		c.log.Warn("depot: files are kept, because their executions are not in this store and may be in another store that uses the depot; if that store is gone for good, remove the file with its id from the directory stores of the depot",
			"executions", len(c.left), "stores", text, "store", c.store)
	}
	c.said = text
}
