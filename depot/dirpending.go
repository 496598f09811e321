package depot

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/filesync"
	"github.com/courierhq/courier/internal/safename"
)

// A pending is a file that is written into a [Directory].
type pending struct {
	d    *Directory
	ctx  context.Context
	key  string
	f    *os.File
	name string // below the root, while it is pending
	hash hash.Hash
	size int64 // of the content
	held int64 // bytes that count for this file in usage
	err  error // why the file can't be committed any more
	done bool
}

// errCommitted is the error of a write after Commit or Close.
var errCommitted = errors.New("depot: the file is committed or closed already")

// Create implements [Depot].
func (d *Directory) Create(ctx context.Context, key string) (Pending, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := d.recount(time.Minute); err != nil {
		return nil, err
	}
	p := &pending{d: d, ctx: ctx, key: key, name: path.Join(pendingDir, rand.Text()), hash: sha256.New()}
	err := d.fault("create", p.name)
	if err == nil {
		d.usage.begin(path.Base(p.name))
		p.f, err = d.root.OpenFile(p.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		d.usage.end(path.Base(p.name), 0)
		return nil, p.wrap(err)
	}
	return p, nil
}

// wrap says which file an error is about.
func (p *pending) wrap(err error) error {
	if diskFull(err) {
		err = full("the disk of the depot is full (%v); remove files, or shorten the retention", err)
	}
	return fmt.Errorf("depot: write %s: %w", safename.Quote(p.key), err)
}

// full returns an error that matches [ErrFull].
func full(format string, args ...any) error {
	return courier.WithClass(courier.Errorf(ErrFull, format, args...), courier.ReasonSpace)
}

// hashBeside is from which size on a block is hashed beside its writing.
const hashBeside = 64 << 10

// Write implements [io.Writer].
func (p *pending) Write(b []byte) (int, error) {
	if err := p.usable(); err != nil {
		return 0, err
	}
	var hashed chan struct{}
	if len(b) >= hashBeside {
		hashed = make(chan struct{})
		go func() {
			defer close(hashed)
			p.hash.Write(b)
		}()
	}
	n, err := p.write(b)
	if hashed == nil {
		p.hash.Write(b)
	} else {
		<-hashed
	}
	p.size += int64(n)
	return n, err
}

// usable returns why the file can't be written or committed.
func (p *pending) usable() error {
	switch {
	case p.done:
		return errCommitted
	case p.err != nil:
		return p.err
	case p.ctx.Err() != nil:
		return p.fail(context.Cause(p.ctx))
	}
	return nil
}

// write writes to the file, within the limit of the depot.
func (p *pending) write(b []byte) (int, error) {
	if err := p.reserve(int64(len(b))); err != nil {
		return 0, p.fail(err)
	}
	err, n := p.d.fault("write", p.name), 0
	if err == nil {
		n, err = p.f.Write(b)
	}
	const behind = 8 << 20 // the kernel begins to write so much to the disk, so that the sync is short
	if now := p.size + int64(n); now/behind != p.size/behind {
		filesync.StartWriting(p.f)
	}
	if err != nil {
		return n, p.fail(err)
	}
	return n, nil
}

// reserve makes room for n bytes, unless the file is a mark: what frees room must not
// need any.
func (p *pending) reserve(n int64) error {
	if isMark(p.key) {
		return nil
	}
	err := p.d.usage.reserve(n)
	if err != nil && p.d.recount(time.Second) == nil { // others may have removed files
		err = p.d.usage.reserve(n)
	}
	if err == nil {
		p.held += n
	}
	return err
}

// isMark reports whether a key is that of a mark.
func isMark(key string) bool {
	_, name := SplitKey(key)
	return name == ""
}

// fail gives the file up and returns the error that says why.
func (p *pending) fail(err error) error {
	p.err = p.wrap(err)
	p.discard()
	return p.err
}

// discard removes the unfinished file.
func (p *pending) discard() error {
	if p.f == nil {
		return nil
	}
	err := p.f.Close()
	p.f = nil
	e := p.d.fault("remove", p.name)
	if e == nil {
		e = p.d.root.Remove(p.name)
	}
	if e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	p.d.usage.end(path.Base(p.name), p.held)
	return err
}

// Commit implements [Pending].
func (p *pending) Commit() (Info, error) {
	if err := p.usable(); err != nil {
		return Info{}, err
	}
	info := Info{Key: p.key, Size: p.size, Time: time.Now().UTC(), SHA256: hex.EncodeToString(p.hash.Sum(nil))}
	end, err := footer(info)
	if err != nil {
		return Info{}, p.fail(err)
	}
	if _, err := p.write(end); err != nil {
		return Info{}, err
	}
	if err = p.d.fault("sync", p.name); err == nil {
		err = p.f.Sync()
	}
	if err != nil {
		return Info{}, p.fail(err)
	}
	final := fileName(p.key)
	if err := p.publish(final); err != nil {
		return Info{}, err
	}
	p.done = true
	if err := p.d.syncNames(path.Dir(final)); err != nil {
		return Info{}, p.wrap(err)
	}
	return info, nil
}

// publish gives the file its final name.
func (p *pending) publish(final string) error {
	// Not before now: Windows renames no file that is open.
	if err := p.f.Close(); err != nil {
		return p.fail(err)
	}
	const most = 5 * time.Second
	for began, wait := time.Now(), time.Duration(0); ; wait = min(wait+time.Millisecond, 20*time.Millisecond) {
		err := p.d.makeDir(path.Dir(final))
		if err == nil {
			err = p.d.replace(p.name, final, p.held)
		}
		if err == nil {
			p.f = nil
			return nil
		}
		// Remove may have taken the directory away in between, and others may do so again.
		if _, gone := p.d.root.Lstat(p.name); !errors.Is(err, fs.ErrNotExist) || gone != nil || time.Since(began) > most || p.ctx.Err() != nil {
			return p.fail(err)
		}
		p.d.forget(path.Dir(final))
		time.Sleep(wait)
	}
}

// Close implements [Pending].
func (p *pending) Close() error {
	if p.done {
		return nil
	}
	p.done = true
	if err := p.discard(); err != nil {
		return p.wrap(err)
	}
	return nil
}
