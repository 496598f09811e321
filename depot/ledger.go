package depot

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"
)

// The sizes that are counted for files in addition to their bytes.
const (
	blockBytes = 4 << 10        // files are rounded up to blocks
	entryBytes = 512            // of a file: its inode, and its name in the directory
	dirBytes   = 2 * blockBytes // of the directories that a first file makes
)

// cost returns the counted size of a file with its description.
func cost(size int64) int64 {
	return (max(size, 1)+blockBytes-1)/blockBytes*blockBytes + entryBytes
}

// A ledger says how much of the disk a [Directory] takes. All processes of a directory share the
// ledger in the file ledger, and lock the file while they read and write it.
type ledger struct {
	Committed int64            `json:"committed"` // of files with names
	Held      map[string]int64 `json:"held"`      // reserved for pending files, by writer
	Counted   time.Time        `json:"counted"`   // when Committed was counted on the disk
	Swept     time.Time        `json:"swept"`     // when dead writers were looked for
}

func (l *ledger) taken() int64 {
	n := l.Committed
	for _, held := range l.Held {
		n += held
	}
	return n
}

// since returns the time since at; it is very long if the clock was set back.
func since(at time.Time) time.Duration {
	if d := time.Since(at); d >= 0 {
		return d
	}
	return 1 << 62
}

// A table is the state that the writers of a [Directory] share.
type table struct {
	most    int64 // 0: no limit
	results int64 // of it, which inputs leave free

	mu     sync.Mutex // is held with the lock of file
	file   *os.File   // the ledger; nil if the file system has no locks
	memory ledger     // in its place
	// writer is the prefix of the names of the pending files of this Directory. Its lock file is
	// locked as long as the process lives.
	writer string
	lock   *os.File
	held   int64 // by this writer
}

const (
	ledgerFile = "ledger"
	lockSuffix = ".lock"
)

// register creates the ledger and the lock of this writer.
func (d *Directory) register() error {
	t := &d.table
	t.writer = rand.Text()
	var err error
	if t.file, err = d.root.OpenFile(ledgerFile, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	err = d.exclusively(func() error {
		t.lock, err = d.root.OpenFile(path.Join(pendingDir, t.writer+lockSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			_, err = tryLock(t.lock)
		}
		return err
	})
	if !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	err = t.file.Close()
	t.file = nil
	return err
}

// leave removes what register has created.
func (t *table) leave(root *os.Root) error {
	if t.lock == nil || t.file == nil {
		return nil
	}
	_ = root.Remove(path.Join(pendingDir, t.writer+lockSuffix)) // if it can't be removed, others do it
	err := errors.Join(t.lock.Close(), t.file.Close())
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}

// lockTimeout is how long to wait for the ledger. A stopped process, for example, may hold the
// lock for ever.
const lockTimeout = 10 * time.Second

// exclusively calls f while no other process and no other goroutine does.
func (d *Directory) exclusively(f func() error) error {
	t := &d.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return f()
	}
	for began, wait := time.Now(), 50*time.Microsecond; ; wait = min(2*wait, 10*time.Millisecond) {
		locked, err := tryLock(t.file)
		if err != nil {
			return err
		}
		if locked {
			break
		}
		if time.Since(began) > lockTimeout {
			return fmt.Errorf("the file %q of the depot was locked by another process for %v; check whether that process is stopped, or the file system hangs", ledgerFile, lockTimeout)
		}
		time.Sleep(wait)
	}
	err := f()
	return errors.Join(err, unlock(t.file))
}

// change calls f with the ledger, and saves the changes. A directory without a limit has no
// ledger.
func (d *Directory) change(f func(l *ledger) error) error {
	t := &d.table
	if t.most == 0 {
		return f(&ledger{Held: make(map[string]int64)})
	}
	return d.exclusively(func() error {
		l, err := t.read()
		if err == nil && l.Counted.IsZero() {
			err = d.tally(l)
		}
		if err != nil {
			return err
		}
		err = f(l)
		return errors.Join(err, t.write(l))
	})
}

// usage returns the used part of the limit according to the ledger; 0 and 0 without a limit.
func (d *Directory) usage() (used, limit int64, err error) {
	t := &d.table
	if t.most == 0 {
		return 0, 0, nil
	}
	err = d.exclusively(func() error {
		l, err := t.read()
		if err == nil {
			used = l.taken()
		}
		return err
	})
	return used, t.most, err
}

// read returns the ledger. If it cannot be read, as after a power failure, read makes a new one.
func (t *table) read() (*ledger, error) {
	l := &t.memory
	if t.file != nil {
		raw, err := io.ReadAll(io.NewSectionReader(t.file, 0, 1<<20))
		if err != nil {
			return nil, err
		}
		l = new(ledger)
		if json.NewDecoder(bytes.NewReader(raw)).Decode(l) != nil { // behind it there may be the end of an earlier one
			*l = ledger{}
		}
	}
	if l.Held == nil {
		l.Held = make(map[string]int64)
	}
	l.Held[t.writer] = t.held
	return l, nil
}

func (t *table) write(l *ledger) error {
	if t.file == nil {
		return nil
	}
	raw, err := json.Marshal(l)
	if err == nil {
		_, err = t.file.WriteAt(append(raw, '\n'), 0)
	}
	return err
}

// sweepEvery is how often a full depot looks for dead writers, and countEvery is how often it
// counts changes of the directory by others than its writers.
const (
	sweepEvery = time.Second
	countEvery = time.Minute
)

// tidy updates the ledger before a write is refused.
func (d *Directory) tidy(l *ledger) error {
	if since(l.Swept) < sweepEvery && since(l.Counted) < countEvery {
		return nil
	}
	return d.settle(l)
}

// settle counts the files again if necessary.
func (d *Directory) settle(l *ledger) error {
	dead, err := d.bury(l)
	if err == nil && (dead || since(l.Counted) >= countEvery) {
		err = d.tally(l) // who died may have renamed or removed a file, and not have written it down
	}
	return err
}

// tally counts the files on the disk. Nothing must change them meanwhile.
func (d *Directory) tally(l *ledger) error {
	if _, err := d.bury(l); err != nil {
		return err
	}
	sizes, err := d.sizes(context.Background())
	if err != nil {
		return err
	}
	l.Committed = 0
	for _, n := range sizes {
		l.Committed += n
	}
	entries, err := d.readDir(pendingDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		writer, _, _ := strings.Cut(e.Name(), "-")
		info, err := e.Info()
		switch _, known := l.Held[writer]; {
		case err != nil || known || writer == d.table.writer || strings.HasSuffix(e.Name(), lockSuffix):
		case e.IsDir():
			n, err := d.size(path.Join(pendingDir, e.Name()))
			if err != nil {
				return err
			}
			l.Committed += n // what Remove has begun to remove
		default:
			l.Committed += cost(info.Size())
		}
	}
	l.Counted = time.Now()
	return nil
}

// bury removes the pending files and the reservations of dead writers. The caller has locked the
// ledger.
func (d *Directory) bury(l *ledger) (dead bool, err error) {
	l.Swept = time.Now()
	entries, err := d.readDir(pendingDir)
	if err != nil || d.table.file == nil {
		return false, err
	}
	lives := map[string]bool{d.table.writer: true}
	var bad []error
	for _, e := range entries {
		writer, _, isFile := strings.Cut(strings.TrimSuffix(e.Name(), lockSuffix), "-")
		if e.IsDir() || !isFile && !strings.HasSuffix(e.Name(), lockSuffix) {
			continue
		}
		alive, seen := lives[writer]
		if !seen {
			if alive, err = d.lives(writer); err != nil {
				bad = append(bad, err)
			}
			lives[writer] = alive
		}
		if alive {
			continue
		}
		dead = true
		if err := d.root.Remove(path.Join(pendingDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, err)
		}
	}
	for writer := range l.Held {
		if !lives[writer] {
			dead = true
			delete(l.Held, writer)
		}
	}
	return dead, errors.Join(bad...)
}

// lives reports whether a writer holds its lock. If that cannot be determined, it reports true.
func (d *Directory) lives(writer string) (bool, error) {
	f, err := d.root.OpenFile(path.Join(pendingDir, writer+lockSuffix), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return true, err
	}
	defer f.Close()
	locked, err := tryLock(f)
	return !locked, err
}
