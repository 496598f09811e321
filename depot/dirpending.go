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
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// A pending is a file that is being written to a [Directory].
type pending struct {
	d    *Directory
	ctx  context.Context
	key  string
	f    *os.File
	name string // below the root, while it is pending
	hash hash.Hash
	size int64 // of what is written
	held int64 // what is reserved for it
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
	p := &pending{d: d, ctx: ctx, key: key, name: path.Join(pendingDir, d.table.writer+"-"+rand.Text()), hash: sha256.New()}
	err := d.fault("create", p.name)
	if err == nil {
		err = p.reserve(0)
	}
	if err == nil {
		p.f, err = d.root.OpenFile(p.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, errors.Join(p.wrap(err), p.giveBack())
	}
	return p, nil
}

// wrap adds the file to an error.
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

// hashBeside is the minimum size of a block that is hashed in parallel with writing it.
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
	return n, err
}

// usable returns the reason why the file cannot be written or committed.
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
	if err := p.reserve(p.size + int64(len(b))); err != nil {
		return 0, p.fail(err)
	}
	err, n := p.d.fault("write", p.name), 0
	if err == nil {
		n, err = p.f.Write(b)
	}
	p.size += int64(n)
	const behind = 8 << 20 // the kernel begins to write so much to the disk, so that the sync is short
	if p.size/behind != (p.size-int64(n))/behind {
		localfile.StartWriting(p.f)
	}
	if err != nil {
		return n, p.fail(err)
	}
	return n, nil
}

// Reserve implements [Reserver].
func (p *pending) Reserve(size int64) error {
	if err := p.usable(); err != nil {
		return err
	}
	const description = 256 // besides the key, which JSON makes up to six times as long
	if err := p.reserve(size + description + 6*int64(len(p.key))); err != nil {
		return p.fail(err)
	}
	return nil
}

// reserve reserves room for a file of a size, unless it is a mark: a mark is needed to free room,
// so it must not need any.
func (p *pending) reserve(size int64) error {
	t := &p.d.table
	need := cost(size) + dirBytes - p.held
	if need <= 0 || t.most == 0 || isMark(p.key) {
		return nil
	}
	most, ofMost := t.most, ""
	if isInput(p.key) && t.results > 0 {
		most, ofMost = t.most-t.results, " for inputs, besides what ForResults leaves to results"
	}
	return p.d.change(func(l *ledger) error {
		if need > most-l.taken() || since(l.Counted) >= countEvery {
			if err := p.d.tidy(l); err != nil {
				return err
			}
		}
		free := most - l.taken()
		if need > free {
			return full("the depot has %d of at most %d bytes%s, and %d more do not fit; remove files, shorten the retention, or raise Most in depot.DirOptions", most-free, most, ofMost, need)
		}
		const ahead = 8 << 20 // so that not each write takes the lock
		n := need
		if more := min(ahead, t.most/1024); need+more <= free {
			n += more
		}
		p.held += n
		t.held += n
		l.Held[t.writer] = t.held
		return nil
	})
}

// giveBack releases the reserved room.
func (p *pending) giveBack() error {
	if p.held == 0 {
		return nil
	}
	return p.d.change(func(l *ledger) error {
		p.d.release(l, p, p.held)
		return nil
	})
}

// isInput reports whether a key is the key of an input.
func isInput(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix(rest, inputs+"/")
}

// isMark reports whether a key is the key of a mark.
func isMark(key string) bool {
	_, name := SplitKey(key)
	return name == ""
}

// fail discards the file and returns the error that says why.
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
	return errors.Join(err, p.giveBack())
}

// Commit implements [Pending].
func (p *pending) Commit() (Info, error) {
	if err := p.usable(); err != nil {
		return Info{}, err
	}
	info := Info{Key: p.key, Size: p.size, Time: time.Now().UTC(), SHA256: hex.EncodeToString(p.hash.Sum(nil)), Store: p.d.stores.own()}
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
	// Not before now: Windows renames no file that is open. The lock is another file's.
	if err := p.f.Close(); err != nil {
		return p.fail(err)
	}
	const most = 5 * time.Second
	for began, wait := time.Now(), time.Duration(0); ; wait = min(wait+time.Millisecond, 20*time.Millisecond) {
		err := p.d.makeDir(p, path.Dir(final))
		if err == nil {
			err = p.d.replace(p, final)
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
