package depot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

const (
	some  = courier.ExecutionID("0198c2f0-0000-7000-8000-000000000001")
	other = courier.ExecutionID("0198c2f0-0000-7000-8000-000000000002")
)

// openAt opens a depot in dir with a limit, so that it counts.
func openAt(t testing.TB, dir string) *Directory {
	t.Helper()
	d, err := Dir(dir, &DirOptions{Most: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// write writes a file and leaves an error to its caller, as a process does that goes on.
func write(t testing.TB, d Depot, key, content string) error {
	p, err := d.Create(t.Context(), key)
	if err != nil {
		return err
	}
	defer p.Close()
	for piece := range slices.Chunk([]byte(content), 1+len(content)/3) {
		if _, err := p.Write(piece); err != nil {
			return err
		}
	}
	_, err = p.Commit()
	return err
}

// nobody are Executions of which none is known.
type nobody struct{}

// Get implements [Executions].
func (nobody) Get(context.Context, courier.ExecutionID) (courier.Execution, error) {
	return courier.Execution{}, courier.Errorf(courier.ErrNotFound, "nobody")
}

// TestCleanBesideUpload: the first file of an upload, which has no execution yet, stays when
// retention has seen its directory before it is there.
func TestCleanBesideUpload(t *testing.T) {
	dir := t.TempDir()
	d, uploads := openAt(t, dir), openAt(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, filesDir, string(some), inputs), 0o700); err != nil {
		t.Fatal(err)
	}
	key, came := InputKey(some, "orders.csv"), false
	d.before = func(op, name string) error {
		if came || !strings.Contains(name, string(some)) {
			return nil
		}
		came = true
		return write(t, uploads, key, "content")
	}
	if err := CleanOnce(t.Context(), d, nobody{}, nil); err != nil || !came {
		t.Fatalf("clean: %v; it looked at the directory: %v", err, came)
	}
	o, err := uploads.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	o.Close()
	if err := d.Remove(t.Context(), string(some)+"/"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, filesDir, string(some), inputs), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := CleanOnce(t.Context(), d, nobody{}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, filesDir, string(some))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory stays: %v", err)
	}
}

// shown describes all files of a depot, each of which must be whole.
func shown(t testing.TB, d *Directory) string {
	t.Helper()
	all, err := d.List(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, info := range all {
		o, err := d.Open(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(o)
		o.Close()
		sum := sha256.Sum256(content)
		if err != nil || hex.EncodeToString(sum[:]) != info.SHA256 || int64(len(content)) != info.Size || o.Info() != info {
			t.Errorf("%s is not whole: %d bytes, %v; described as %+v", info.Key, len(content), err, info)
		}
		fmt.Fprintf(&b, "%s=%.20s;", strings.TrimPrefix(info.Key, string(some)+"/"), content)
	}
	return b.String()
}

// pendings lists what is in the directory pending.
func pendings(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, pendingDir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), lockSuffix) {
			names = append(names, e.Name())
		}
	}
	return names
}

// counts checks the count of bytes against the disk.
func counts(t testing.TB, d *Directory, dir string) {
	t.Helper()
	var want int64
	err := filepath.WalkDir(filepath.Join(dir, filesDir), func(_ string, e os.DirEntry, err error) error {
		if err != nil || strings.HasSuffix(e.Name(), "-removed") {
			return err
		}
		if e.IsDir() {
			if e.Name() == inputs || e.Name() == results {
				want += dirBytes
			}
			return nil
		}
		info, err := e.Info()
		want += cost(info.Size())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	err = d.change(func(l *ledger) error {
		if l.Committed != want || l.taken() != want {
			t.Errorf("counted are %d bytes, and %v held; on the disk are %d", l.Committed, l.Held, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A change is something that is done to a depot, which may be cut off.
type change struct {
	name string
	do   func(t testing.TB, d *Directory) error
	// seen are the states that may be seen after it was cut off; the last one is that when
	// it has succeeded.
	seen []string
}

var changes = []change{
	{"create", func(t testing.TB, d *Directory) error { return write(t, d, ResultKey(other, "new"), "new content") },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "in/a=a;out/b=b;out/c/d=d;" + string(other) + "/out/new=new content;"}},
	{"replace", func(t testing.TB, d *Directory) error { return write(t, d, ResultKey(some, "b"), "other content") },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "in/a=a;out/b=other content;out/c/d=d;"}},
	{"mark", func(t testing.TB, d *Directory) error { return write(t, d, RemovedKey(some), "") },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "in/a=a;out/b=b;out/c/d=d;removed=;"}},
	{"remove a file", func(t testing.TB, d *Directory) error { return d.Remove(t.Context(), ResultKey(some, "c")) },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "in/a=a;out/b=b;"}},
	{"remove the results", func(t testing.TB, d *Directory) error { return d.Remove(t.Context(), ResultKey(some, "")) },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "in/a=a;"}},
	{"remove all", func(t testing.TB, d *Directory) error { return d.Remove(t.Context(), string(some)) },
		[]string{"in/a=a;out/b=b;out/c/d=d;", "out/b=b;out/c/d=d;", "in/a=a;", ""}},
}

// filled opens a depot with three files.
func filled(t testing.TB, dir string) *Directory {
	t.Helper()
	d := openAt(t, dir)
	for key, content := range map[string]string{InputKey(some, "a"): "a", ResultKey(some, "b"): "b", ResultKey(some, "c/d"): "d"} {
		if err := write(t, d, key, content); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// TestKilled: a process that dies before its n-th operation on the directory leaves each
// file whole or absent, and the next process can do the same again.
func TestKilled(t *testing.T) {
	killed := errors.New("killed")
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			for n := 0; ; n++ {
				dir := t.TempDir()
				d := filled(t, dir)
				left := n
				d.before = func(op, name string) error {
					if left--; left < 0 {
						return killed
					}
					return nil
				}
				err := c.do(t, d)
				if err != nil && !errors.Is(err, killed) {
					t.Fatalf("killed before operation %d: %v", n, err)
				}
				d.Close()
				next := openAt(t, dir)
				if got := shown(t, next); !slices.Contains(c.seen, got) {
					t.Errorf("killed before operation %d, the next process sees %q", n, got)
				}
				if p := pendings(t, dir); len(p) > 0 {
					t.Errorf("killed before operation %d: the next process leaves %q", n, p)
				}
				if err := c.do(t, next); err != nil {
					t.Fatalf("killed before operation %d, then repeated: %v", n, err)
				}
				if got := shown(t, next); got != c.seen[len(c.seen)-1] {
					t.Errorf("killed before operation %d, then repeated: %q", n, got)
				}
				counts(t, next, dir)
				if err == nil {
					if n < 3 {
						t.Errorf("there were %d operations; are all announced?", n)
					}
					return
				}
			}
		})
	}
}

// TestDiskFull: where the disk is full at any operation, the error matches ErrFull, and
// nothing is left of what did not fit.
func TestDiskFull(t *testing.T) {
	for _, c := range changes[:3] {
		t.Run(c.name, func(t *testing.T) {
			for n := 0; ; n++ {
				dir := t.TempDir()
				d := filled(t, dir)
				left, failed := n, ""
				d.before = func(op, name string) error {
					if left--; left == -1 && op != "remove" {
						failed = op
						return &os.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
					}
					return nil
				}
				err := c.do(t, d)
				if failed == "" {
					if err != nil {
						t.Fatal(err)
					}
					break
				}
				if !errors.Is(err, ErrFull) || courier.ClassOf(err) != courier.ReasonSpace || !strings.Contains(err.Error(), "disk of the depot is full") {
					t.Errorf("%s failed: %v", failed, err)
				}
				if p := pendings(t, dir); len(p) > 0 {
					t.Errorf("%s failed: there are %q", failed, p)
				}
				if got := shown(t, d); got != c.seen[0] && failed != "syncdir" {
					t.Errorf("%s failed: there are %q", failed, got)
				}
				counts(t, d, dir)
			}
		})
	}
}

// TestSynced: a file is synced before it gets its name, and its directories before Commit
// returns.
func TestSynced(t *testing.T) {
	d := openAt(t, t.TempDir())
	var ops []string
	d.before = func(op, name string) error {
		if strings.HasPrefix(name, pendingDir) {
			name = pendingDir
		}
		ops = append(ops, op+" "+strings.ReplaceAll(name, string(some), "X"))
		return nil
	}
	key := InputKey(some, "a.csv")
	if err := write(t, d, key, ""); err != nil {
		t.Fatal(err)
	}
	final := strings.ReplaceAll(fileName(key), string(some), "X")
	want := []string{"create pending", "write pending", "sync pending", "mkdir files/X/in", "syncdir files/X", "syncdir files", "rename " + final, "syncdir files/X/in"}
	if !slices.Equal(ops, want) {
		t.Errorf("operations:\n%q, want\n%q", ops, want)
	}
	ops = nil
	if err := write(t, d, key, ""); err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(s string) bool { return s == "mkdir files/X/in" || s == "syncdir files/X" || s == "syncdir files" })
	if !slices.Equal(ops, want) {
		t.Errorf("operations in a directory that is known:\n%q, want\n%q", ops, want)
	}
}

// TestSeveralProcesses: processes with one directory count what the others write and
// remove, and together never exceed the limit.
func TestSeveralProcesses(t *testing.T) {
	dir := t.TempDir()
	open := func() *Directory {
		d, err := Dir(dir, &DirOptions{Most: 100_000, ForResults: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	a, b := open(), open()
	large := strings.Repeat("x", 60_000)
	p, err := a.Create(t.Context(), InputKey(some, "a"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Write([]byte(large)); err != nil {
		t.Fatal(err)
	}
	if err := write(t, b, InputKey(some, "b"), large); !errors.Is(err, ErrFull) {
		t.Errorf("b has not seen what a is writing: %v", err)
	}
	if _, err := p.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := write(t, b, InputKey(some, "b"), large); !errors.Is(err, ErrFull) {
		t.Errorf("b has not seen what a has written: %v", err)
	}
	if err := a.Remove(t.Context(), string(some)); err != nil {
		t.Fatal(err)
	}
	if err := write(t, b, InputKey(some, "b"), large); err != nil {
		t.Errorf("b has not seen that a has removed: %v", err)
	}
	counts(t, a, dir)
	var all sync.WaitGroup
	for i := range 8 {
		d := open()
		all.Go(func() {
			for n := range 5 {
				if err := write(t, d, ResultKey(some, fmt.Sprint(i, "-", n)), "x"); err != nil && !errors.Is(err, ErrFull) {
					t.Error(err)
				}
				if err := a.change(func(l *ledger) error {
					if l.taken() > 100_000 {
						t.Errorf("%d bytes are taken", l.taken())
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	counts(t, b, dir)
}

// TestDeadWriter: what a dead process was writing, and all that was reserved for it, is gone
// when others need the room, at their next look, and when one starts; what a process
// writes that lives is not.
func TestDeadWriter(t *testing.T) {
	for what, notice := range map[string]func(t *testing.T, dir string, d *Directory) error{
		"a full depot": func(t *testing.T, _ string, d *Directory) error {
			return write(t, d, InputKey(some, "b"), strings.Repeat("x", 60_000))
		},
		"a look":  func(t *testing.T, _ string, d *Directory) error { return d.sweep() },
		"a start": func(t *testing.T, dir string, _ *Directory) error { openAt(t, dir); return nil },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			open := func() *Directory {
				d, err := Dir(dir, &DirOptions{Most: 100_000, ForResults: -1})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { d.Close() })
				return d
			}
			dies, lives, other := open(), open(), open()
			begun := func(d *Directory, size int) Pending {
				p, err := d.Create(t.Context(), InputKey(some, "a"))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.Write(make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				return p
			}
			begun(dies, 50_000)
			p := begun(lives, 1000)
			defer p.Close()
			// As kill -9 does.
			if err := errors.Join(dies.table.lock.Close(), dies.table.file.Close(), dies.root.Close()); err != nil {
				t.Fatal(err)
			}
			err := other.change(func(l *ledger) error {
				l.Swept = time.Time{}
				return nil
			})
			if err = errors.Join(err, notice(t, dir, other)); err != nil {
				t.Fatal(err)
			}
			if left := pendings(t, dir); len(left) != 1 || !strings.HasPrefix(left[0], lives.table.writer) {
				t.Errorf("pending are %q", left)
			}
			if _, err := p.Commit(); err != nil {
				t.Errorf("the writer that lives: %v", err)
			}
			counts(t, other, dir)
		})
	}
}

// TestBadLedger: a ledger that can't be read is made anew.
func TestBadLedger(t *testing.T) {
	dir := t.TempDir()
	d := filled(t, dir)
	if err := os.WriteFile(filepath.Join(dir, ledgerFile), []byte(`{"committed": 1`), 0o600); err != nil {
		t.Fatal(err)
	}
	counts(t, d, dir)
}

// TestWithoutLocks: where the file system has none, a limit holds in one process, and what
// is left is removed after a day, and not before.
func TestWithoutLocks(t *testing.T) {
	dir := t.TempDir()
	d := filled(t, dir)
	d.table.file = nil
	name := filepath.Join(dir, pendingDir, "X-Y")
	if err := os.WriteFile(name, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, age := range []time.Duration{0, pendingAge + time.Minute} {
		at := time.Now().Add(-age)
		if err := errors.Join(os.Chtimes(name, at, at), d.sweep()); err != nil {
			t.Fatal(err)
		}
		if left := len(pendings(t, dir)); left != 1 && age == 0 || left != 0 && age > 0 {
			t.Errorf("after %v there are %d", age, left)
		}
	}
	d.table.memory.Counted = time.Time{}
	counts(t, d, dir)
}

// TestCost: what counts is at least what the disk gives, also for many files that are empty,
// and for executions with one file each.
func TestCost(t *testing.T) {
	dir := t.TempDir()
	d := openAt(t, dir)
	for i := range 200 {
		x := courier.ExecutionID(fmt.Sprintf("%s%03d", some[:33], i%40))
		if err := errors.Join(write(t, d, InputKey(x, fmt.Sprint(i)), ""), write(t, d, ResultKey(x, fmt.Sprint(i)), strings.Repeat("x", i*100))); err != nil {
			t.Fatal(err)
		}
	}
	counts(t, d, dir)
	var used int64
	err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if info, e := os.Lstat(name); err == nil && e == nil {
			used += blocksOf(info)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_ = d.change(func(l *ledger) error {
		if used > l.taken()+64<<10 || l.taken() > 2*used {
			t.Errorf("the disk has %d bytes for it, and %d count", used, l.taken())
		}
		t.Logf("the disk has %d bytes for it, and %d count", used, l.taken())
		return nil
	})
}
