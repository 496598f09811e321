package couriertest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
)

// A Depot is a [depot.Depot] in memory. The zero value is empty and ready to use. A Depot must not
// be copied after first use.
//
//	files := new(couriertest.Depot)
//	depot.Register(h.Registry, files, nil)
//
// As with any registered depot, a started engine removes files when their retention time is over,
// by default 48 hours after an execution has completed. This also works in virtual time.
type Depot struct {
	// Most is the largest size of all files together in bytes, including pending ones; 0 means no
	// limit. It must not be changed after first use.
	Most int64

	mu    sync.Mutex
	files map[string]depotFile
	used  int64
}

type depotFile struct {
	info    depot.Info
	content []byte
}

var _ depot.Depot = (*Depot)(nil)

// Put puts a file into the depot, as an upload does.
func (d *Depot) Put(key, content string) error {
	p, err := d.Create(context.Background(), key)
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := p.Write([]byte(content)); err != nil {
		return err
	}
	_, err = p.Commit()
	return err
}

// Content returns the content of a file, and whether the file exists.
func (d *Depot) Content(key string) (content string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[key]
	return string(f.content), ok
}

// Create implements [depot.Depot].
func (d *Depot) Create(ctx context.Context, key string) (depot.Pending, error) {
	if err := depot.CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return &depotPending{d: d, ctx: ctx, key: key}, nil
}

// Open implements [depot.Depot].
func (d *Depot) Open(ctx context.Context, key string) (depot.Object, error) {
	if err := depot.CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f, ok := d.files[key]
	if !ok {
		return nil, courier.Errorf(courier.ErrNotFound, "depot: there is no file %q", key)
	}
	return depot.NewObject(ctx, f.info, depotContent{bytes.NewReader(f.content)}), nil
}

// List implements [depot.Depot].
func (d *Depot) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	if err := depot.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []depot.Info
	for key, f := range d.files {
		if depot.HasPrefix(key, prefix) {
			all = append(all, f.info)
		}
	}
	slices.SortFunc(all, func(a, b depot.Info) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// Remove implements [depot.Depot].
func (d *Depot) Remove(ctx context.Context, prefix string) error {
	if err := depot.CheckPrefix(prefix); err != nil {
		return err
	}
	if prefix == "" {
		return courier.Errorf(courier.ErrInvalid, "depot: the prefix is empty; name the execution whose files are to be removed")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, f := range d.files {
		if depot.HasPrefix(key, prefix) {
			d.used -= f.info.Size
			delete(d.files, key)
		}
	}
	return nil
}

// A depotPending is a file that is being written into a Depot.
type depotPending struct {
	d       *Depot
	ctx     context.Context
	key     string
	content []byte
	err     error
	done    bool
}

// Write implements [depot.Pending].
func (p *depotPending) Write(b []byte) (int, error) {
	if err := p.usable(); err != nil {
		return 0, err
	}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if n := int64(len(b)); p.d.Most > 0 && n > p.d.Most-p.d.used {
		p.err = courier.Errorf(depot.ErrFull, "depot: write %q: the depot has %d of at most %d bytes, and %d more do not fit", p.key, p.d.used, p.d.Most, n)
		p.release()
		return 0, p.err
	}
	p.d.used += int64(len(b))
	p.content = append(p.content, b...)
	return len(b), nil
}

// usable returns an error if the file can't be written or committed.
func (p *depotPending) usable() error {
	switch {
	case p.done:
		return fmt.Errorf("depot: %q is committed or closed already", p.key)
	case p.err != nil:
		return p.err
	case p.ctx.Err() != nil:
		return context.Cause(p.ctx)
	}
	return nil
}

// release frees the space of the file. The depot is locked.
func (p *depotPending) release() {
	p.d.used -= int64(len(p.content))
	p.content = nil
}

// Commit implements [depot.Pending].
func (p *depotPending) Commit() (depot.Info, error) {
	if err := p.usable(); err != nil {
		return depot.Info{}, err
	}
	p.done = true
	sum := sha256.Sum256(p.content)
	info := depot.Info{Key: p.key, Size: int64(len(p.content)), Time: time.Now().UTC(), SHA256: hex.EncodeToString(sum[:])}
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.d.files == nil {
		p.d.files = make(map[string]depotFile)
	}
	p.d.used -= p.d.files[p.key].info.Size
	p.d.files[p.key] = depotFile{info, p.content}
	return info, nil
}

// Close implements [depot.Pending].
func (p *depotPending) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	p.release()
	return nil
}

// A depotContent is the content of an open file of a Depot.
type depotContent struct{ *bytes.Reader }

// Close implements [io.Closer].
func (depotContent) Close() error { return nil }
