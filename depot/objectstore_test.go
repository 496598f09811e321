package depot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/courierhq/courier"
)

// Buckets is an object store in memory, as a depot of the functions for such.
type Buckets struct {
	mu      sync.Mutex
	objects map[string]stored
}

type stored struct {
	info    Info
	content []byte
}

type closer struct{ *bytes.Reader }

func (closer) Close() error { return nil }

func (b *Buckets) Create(ctx context.Context, key string) (Pending, error) {
	return Spool(ctx, key, func(_ context.Context, info Info, content io.ReadSeeker) error {
		raw, err := io.ReadAll(content)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.objects == nil {
			b.objects = make(map[string]stored)
		}
		b.objects[key] = stored{info, raw}
		return err
	})
}

func (b *Buckets) stat(key string) (stored, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.objects[key]
	if !ok {
		return o, courier.Errorf(courier.ErrNotFound, "there is no object %q", key)
	}
	return o, nil
}

func (b *Buckets) Open(ctx context.Context, key string) (Object, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	o, err := b.stat(key)
	if err != nil {
		return nil, err
	}
	return NewObject(ctx, o.info, closer{bytes.NewReader(o.content)}), nil
}

func (b *Buckets) List(ctx context.Context, prefix string) ([]Info, error) {
	return b.listing().Infos(ctx, prefix, func(key string) (Info, error) {
		o, err := b.stat(key)
		return o.info, err
	})
}

func (b *Buckets) Remove(ctx context.Context, prefix string) error {
	return b.listing().Remove(ctx, prefix, func(key string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.objects, key)
		return courier.Errorf(courier.ErrNotFound, "another one has removed it")
	})
}

func (b *Buckets) Executions(ctx context.Context) ([]courier.ExecutionID, error) {
	return b.listing().Executions(ctx)
}

// listing has all names in random order, each twice, with some that are no keys.
func (b *Buckets) listing() Listing {
	b.mu.Lock()
	defer b.mu.Unlock()
	names := []string{"", "notes.txt", string(some) + "/notes.txt", string(some) + "/in/../in/x", "x\x00"}
	for key := range b.objects {
		names = append(names, key, key)
	}
	return listed(names...)
}

// listed is a listing of names.
func listed(names ...string) Listing {
	return func(yield func(string, error) bool) {
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

// spooled returns a spool whose commits are counted.
func spooled(t *testing.T, ctx context.Context, result error) (s *spool, commits *int) {
	t.Helper()
	commits = new(int)
	p, err := Spool(ctx, InputKey(some, "a"), func(context.Context, Info, io.ReadSeeker) error {
		*commits++
		return result
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.(*spool), commits
}

// TestSpool: a file is committed once, if all of it was written and its context lasts, and
// nothing is left of it.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	fault, cause := errors.New("the store is away"), errors.New("the reason")
	for name, c := range map[string]struct {
		before func(s *spool, end func(error)) // Commit
		result error                           // of the store
		calls  int
		want   error // nil means any
	}{
		"the store fails":     {func(*spool, func(error)) {}, fault, 1, fault},
		"committed before":    {func(s *spool, _ func(error)) { s.Commit() }, nil, 1, errCommitted},
		"failed before":       {func(s *spool, _ func(error)) { s.Commit() }, fault, 1, errCommitted},
		"closed before":       {func(s *spool, _ func(error)) { s.Close() }, nil, 0, errCommitted},
		"the context is over": {func(_ *spool, end func(error)) { end(cause) }, nil, 0, cause},
		"a write has failed":  {func(s *spool, _ func(error)) { s.file.Close() }, nil, 0, os.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			s, commits := spooled(t, ctx, c.result)
			if _, err := s.Write([]byte("whole ")); err != nil {
				t.Fatal(err)
			}
			c.before(s, end)
			if name != "the store fails" {
				if n, err := s.Write([]byte("file")); err == nil || n != 0 || !errors.Is(err, c.want) {
					t.Errorf("write: %d, %v", n, err)
				}
			}
			for range 2 {
				info, err := s.Commit()
				if err == nil || info != (Info{}) || !errors.Is(err, c.want) && !errors.Is(err, errCommitted) {
					t.Errorf("commit: %+v, %v", info, err)
				}
			}
			if *commits != c.calls {
				t.Errorf("the store was called %d times, want %d", *commits, c.calls)
			}
			if err := s.Close(); name != "a write has failed" && err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Errorf("a second close: %v", err)
			}
		})
	}
	s, _ := spooled(t, t.Context(), nil)
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 != s.named {
		t.Errorf("while it is pending, there are %v, %v", left, err)
	}
	s.Close()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("in the end there are %v, %v", left, err)
	}
	err := s.wrap(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC})
	if !errors.Is(err, ErrFull) || courier.ClassOf(err) != courier.ReasonSpace || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("a full disk: %v", err)
	}
}

// torn is content that ends the context or fails while it is read.
type torn struct {
	closer
	fail func() error
}

func (c torn) Read(p []byte) (int, error) {
	if n, _ := c.closer.Read(p[:min(len(p), 3)]); n > 0 {
		return n, nil
	}
	return 0, c.fail()
}

// TestNewObject: errors name the key, and that of an ended context is its cause.
func TestNewObject(t *testing.T) {
	fault, cause := errors.New("the store is away"), errors.New("the reason")
	info := Info{Key: InputKey(some, "a"), Size: 7}
	for name, fail := range map[string]func(end func(error)) error{
		"end":     func(func(error)) error { return io.EOF },
		"fault":   func(func(error)) error { return fault },
		"context": func(end func(error)) error { end(cause); return fault },
	} {
		ctx, end := context.WithCancelCause(t.Context())
		defer end(nil)
		o := NewObject(ctx, info, torn{closer{bytes.NewReader([]byte("content"))}, func() error { return fail(end) }})
		got, err := io.ReadAll(o)
		switch {
		case string(got) != "content" || o.Info() != info:
			t.Errorf("%s: %q of %+v", name, got, o.Info())
		case name == "end" && err != nil,
			name == "fault" && (!errors.Is(err, fault) || !strings.Contains(err.Error(), info.Key)),
			name == "context" && err != cause:
			t.Errorf("%s: %v", name, err)
		}
		end(cause)
		if n, err := o.Read(make([]byte, 1)); n != 0 || err != cause {
			t.Errorf("%s: after the end of the context: %d, %v", name, n, err)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestListing: the first error of a listing or of a call ends it, and so does the end of the
// context.
func TestListing(t *testing.T) {
	a, b := InputKey(some, "a"), InputKey(other, "b")
	fault, cause := errors.New("the store is away"), errors.New("the reason")
	var called []string
	calls := func(l Listing, ctx context.Context, f func(key string) error) (errs []error) {
		count := func(key string) error {
			called = append(called, key)
			return f(key)
		}
		infos, err := l.Infos(ctx, "", func(key string) (Info, error) { return Info{Key: key}, count(key) })
		if err != nil && infos != nil {
			t.Errorf("%v besides %v", infos, err)
		}
		x, e := l.Executions(ctx)
		if e != nil && x != nil {
			t.Errorf("%v besides %v", x, e)
		}
		return []error{err, l.Remove(ctx, string(some), count), e}
	}
	good := func(string) error { return nil }
	for i, err := range calls(func(yield func(string, error) bool) { _ = yield(a, nil) && yield("", fault) && yield(b, nil) }, t.Context(), good) {
		if err != fault || len(called) > 0 {
			t.Errorf("%d: a listing that fails: %v, after %q", i, err, called)
		}
	}
	for i, err := range calls(listed(b, a), t.Context(), func(string) error { return fault })[:2] {
		if err != fault {
			t.Errorf("%d: a call that fails: %v", i, err)
		}
	}
	if want := []string{a, a}; !slices.Equal(called, want) {
		t.Errorf("calls for %q, want %q", called, want)
	}
	for name, listing := range map[string]func(end func(error)) iter.Seq2[string, error]{
		"within": func(end func(error)) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				if yield(a, nil) {
					end(cause)
					yield(b, fault)
				}
			}
		},
		"and an early end": func(end func(error)) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) { _ = yield(a, nil); end(cause) }
		},
		"of nothing": func(end func(error)) iter.Seq2[string, error] {
			return func(func(string, error) bool) { end(cause) }
		},
	} {
		ctx, end := context.WithCancelCause(t.Context())
		called = nil
		for i, err := range calls(Listing(listing(end)), ctx, good) {
			if err != cause || len(called) > 0 {
				t.Errorf("%s, %d: %v, after %q", name, i, err, called)
			}
		}
	}
	ctx, end := context.WithCancelCause(t.Context())
	err := listed(a, b).Remove(ctx, string(some), func(string) error { end(cause); return nil })
	if err != cause {
		t.Errorf("a context that ends with the last call: %v", err)
	}
	never := Listing(func(func(string, error) bool) { t.Error("it was listed") })
	for _, prefix := range []string{"", "/", "../x"} {
		if err := never.Remove(t.Context(), prefix, good); !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("remove %q: %v", prefix, err)
		}
	}
	if _, err := never.Infos(t.Context(), "/x", func(string) (Info, error) { return Info{}, nil }); !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("list: %v", err)
	}
	if got, err := listed(b, a, ResultKey(some, "b"), fmt.Sprint(some, "/x")).Executions(t.Context()); err != nil || !slices.Equal(got, []courier.ExecutionID{some, other}) {
		t.Errorf("executions: %v, %v", got, err)
	}
}
