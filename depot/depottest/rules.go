package depottest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
)

func (tr *trial) roundTrip() {
	for name, size := range map[string]int{"empty": 0, "one": 1, "small": 4096, "large": tr.c.Large} {
		content := noise(name, size)
		before := time.Now()
		info := tr.put(in(name), content)
		const skew = time.Hour // the clock of a server may differ
		if info.Time.Before(before.Add(-skew)) || info.Time.After(time.Now().Add(skew)) {
			tr.Errorf("%s was committed at %v, by the depot", name, info.Time)
		}
		tr.has(in(name), content)
		all, err := tr.d.List(tr.Context(), in(name))
		if err != nil || len(all) != 1 {
			tr.Fatalf("list %s: %v, %v", in(name), all, err)
		}
		tr.describes(all[0], in(name), content)
	}
}

func (tr *trial) pending() {
	p, err := tr.d.Create(tr.Context(), in("a"))
	if err != nil {
		tr.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Write([]byte("half")); err != nil {
		tr.Fatal(err)
	}
	tr.has(in("a"), nil)
	tr.lists("")
	if err := tr.d.Remove(tr.Context(), first); err != nil {
		tr.Error(err)
	}
	if _, err := p.Write([]byte(" and half")); err != nil {
		tr.Fatal(err)
	}
	if _, err := p.Commit(); err != nil {
		tr.Fatalf("commit after a Remove: %v", err)
	}
	tr.has(in("a"), []byte("half and half"))

	p, err = tr.d.Create(tr.Context(), in("b"))
	if err != nil {
		tr.Fatal(err)
	}
	if _, err := p.Write([]byte("given up")); err != nil {
		tr.Fatal(err)
	}
	if err := p.Close(); err != nil {
		tr.Errorf("close without commit: %v", err)
	}
	tr.has(in("b"), nil)
	tr.lists("", in("a"))
}

func (tr *trial) replace() {
	tr.put(out("a"), []byte("the old content"))
	p, err := tr.d.Create(tr.Context(), out("a"))
	if err != nil {
		tr.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Write([]byte("the new")); err != nil {
		tr.Fatal(err)
	}
	tr.has(out("a"), []byte("the old content"))
	if _, err := p.Commit(); err != nil {
		tr.Fatal(err)
	}
	tr.has(out("a"), []byte("the new"))
	tr.lists("", out("a"))
}

func (tr *trial) stable() {
	old, young := noise("old", tr.c.Large), noise("young", tr.c.Large)
	tr.put(in("a"), old)
	for _, change := range []func() error{
		func() error { _, err := write(tr.Context(), tr.d, in("a"), young); return err },
		func() error { return tr.d.Remove(tr.Context(), first) },
	} {
		o, err := tr.d.Open(tr.Context(), in("a"))
		if err != nil {
			tr.Fatal(err)
		}
		defer o.Close()
		want := old
		if o.Info().SHA256 == sum(young) {
			want = young
		}
		head := make([]byte, 1000)
		if _, err := io.ReadFull(o, head); err != nil {
			tr.Fatal(err)
		}
		if err := change(); err != nil {
			tr.Fatal(err)
		}
		rest, err := io.ReadAll(o)
		got := append(head, rest...)
		switch {
		case err == nil && !bytes.Equal(got, want):
			tr.Error("an open file gave the content of another one, and no error")
		case err != nil && (!tr.c.MayLose || !bytes.HasPrefix(want, got)):
			tr.Errorf("an open file could not be read to its end: %v", err)
		}
	}
	tr.has(in("a"), nil)
}

func (tr *trial) seek() {
	content := noise("seek", 100_000)
	tr.put(in("a"), content)
	o, err := tr.d.Open(tr.Context(), in("a"))
	if err != nil {
		tr.Fatal(err)
	}
	defer o.Close()
	for _, s := range []struct {
		offset int64
		whence int
		at     int64
	}{{0, io.SeekEnd, 100_000}, {50_000, io.SeekStart, 50_000}, {10, io.SeekCurrent, 50_020}, {-10, io.SeekEnd, 99_990}, {0, io.SeekStart, 0}} {
		at, err := o.Seek(s.offset, s.whence)
		if err != nil || at != s.at {
			tr.Fatalf("seek %d, %d: %d, %v; want %d", s.offset, s.whence, at, err, s.at)
		}
		piece := make([]byte, 10)
		n, err := io.ReadFull(o, piece)
		if want := content[at:min(at+10, 100_000)]; !bytes.Equal(piece[:n], want) || n < 10 && err == nil {
			tr.Errorf("at %d: %d bytes, %v", at, n, err)
		}
	}
	if _, err := o.Seek(-1, io.SeekStart); err == nil {
		tr.Error("seek before the beginning is no error")
	}
}

func (tr *trial) keys() {
	// Keys are independent of each other, whatever their names look like.
	keys := []string{out("a"), out("a.b"), out("a/b"), out("A"), out("a b"), out("b/a"), in("a"), depot.InputKey(second, "a"), depot.RemovedKey(first)}
	for _, key := range keys {
		tr.put(key, []byte(key))
	}
	for _, key := range keys {
		tr.has(key, []byte(key))
	}
	slices.Sort(keys)
	tr.lists("", keys...)
}

func (tr *trial) badKeys() {
	bad := []string{
		"", "/", first, first + "/", first + "/in", first + "/in/", first + "/out/", first + "/x", first + "/x/a", first + "/removed/a", first + "//in/a",
		"/" + in("a"), "X/in/a", "../in/a", "./in/a", "a\x00/in/a", strings.Repeat("a", 65) + "/in/a",
		in("."), in(".."), in("a/b"), in(`a\b`), in("a\x00b"), in("a\n"), in("\x1b[2J"), in("\xff"), in("\u202ecod.exe"), in("a "), in("a."), in(strings.Repeat("a", 256)), in(strings.Repeat("a", 4096)),
		in("CON"), in("nul.txt"), in("C:x"), in("a\u200b.csv"), in("\ufeffa"), out("d/aux/a"), out("c:/a"), out("LPT1"), out("a\u2060"),
		out("."), out("a/../b"), out("../a"), out("/a"), out("a/"), out("a//b"), out("a/\u202e"), out(strings.Repeat("a/", 40) + "a"), out(strings.Repeat(strings.Repeat("a", 250)+"/", 5) + "a"),
	}
	for _, key := range bad {
		p, err := tr.d.Create(tr.Context(), key)
		if err == nil {
			p.Close()
		}
		tr.refused("create", key, err)
		o, err := tr.d.Open(tr.Context(), key)
		if err == nil {
			o.Close()
		}
		tr.refused("open", key, err)
	}
	for _, prefix := range []string{"/", first + "/x", first + "/in/a/b", first + "/../" + second, "..", first + "/out/..", first + "/out/a\x00"} {
		_, err := tr.d.List(tr.Context(), prefix)
		tr.refused("list", prefix, err)
		tr.refused("remove", prefix, tr.d.Remove(tr.Context(), prefix))
	}
	tr.refused("remove", "", tr.d.Remove(tr.Context(), ""))
	tr.lists("")
}

// refused checks the error for a key or prefix.
func (tr *trial) refused(verb, key string, err error) {
	tr.Helper()
	if !errors.Is(err, courier.ErrInvalid) {
		tr.Errorf("%s %.80q: %v; want an error that matches courier.ErrInvalid", verb, key, err)
		return
	}
	if len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x00\x1b\u202e") {
		tr.Errorf("%s %.80q: the error is not fit to be shown: %q", verb, key, err)
	}
}

func (tr *trial) names() {
	keys := []string{
		in("a b&c=d+e%2F?#.csv"), in("Ünïcödé 文件.txt"), in("CONSOLE"), in(strings.Repeat("x", 255)), in(`"quotes" and 'more'.xml`), in("<b>&amp;"),
		in("removed"), in("in"), out("out"), out("removed"), out(strings.Repeat("d/", 31) + "f"), out(strings.Repeat("é", 127)), in("cafe\u0301"), in("caf\u00e9"), in("-rf"), in("~"), in(".hidden"),
	}
	for _, key := range keys {
		tr.put(key, []byte(key))
	}
	for _, key := range keys {
		tr.has(key, []byte(key))
		tr.lists(key, key)
	}
	slices.Sort(keys)
	tr.lists(first, keys...)
	for _, key := range keys {
		if err := tr.d.Remove(tr.Context(), key); err != nil {
			tr.Errorf("remove %q: %v", key, err)
		}
		tr.has(key, nil)
	}
	tr.lists("")
}

func (tr *trial) missing() {
	tr.has(in("a"), nil)
	tr.lists("")
	tr.lists(first)
	for range 2 {
		for _, prefix := range []string{first, in(""), in("a"), depot.RemovedKey(first)} {
			if err := tr.d.Remove(tr.Context(), prefix); err != nil {
				tr.Errorf("remove %s, of which there is nothing: %v", prefix, err)
			}
		}
	}
	tr.put(in("a"), []byte("a"))
	tr.has(in("b"), nil)
	tr.has(out("a"), nil)
}

// fill writes some files of two executions.
func (tr *trial) fill() {
	for _, key := range []string{in("a"), in("b"), out("a"), out("d/a"), out("d/e/a"), out("de/a"), depot.InputKey(second, "a"), depot.RemovedKey(second)} {
		tr.put(key, []byte(key))
	}
}

func (tr *trial) list() {
	tr.fill()
	other := []string{depot.InputKey(second, "a"), depot.RemovedKey(second)}
	all := []string{in("a"), in("b"), out("a"), out("d/a"), out("d/e/a"), out("de/a")}
	tr.lists("", append(slices.Clone(all), other...)...)
	tr.lists(first, all...)
	tr.lists(first+"/", all...)
	tr.lists(second, other...)
	tr.lists(in(""), in("a"), in("b"))
	tr.lists(first+"/in", in("a"), in("b"))
	tr.lists(out("d"), out("d/a"), out("d/e/a"))
	tr.lists(out("d/"), out("d/a"), out("d/e/a"))
	tr.lists(out("d/e/a"), out("d/e/a"))
	tr.lists(out("a/"))
	tr.lists(first[:35])
	tr.lists(depot.RemovedKey(first))
	if l, ok := tr.d.(depot.ExecutionLister); ok {
		if got, err := l.Executions(tr.Context()); err != nil || !slices.Equal(got, []courier.ExecutionID{first, second}) {
			tr.Errorf("executions: %q, %v; want %q", got, err, []string{first, second})
		}
	}
}

func (tr *trial) remove() {
	tr.fill()
	for _, c := range []struct {
		prefix string
		left   []string
	}{
		{out("x"), []string{in("a"), in("b"), out("a"), out("d/a"), out("d/e/a"), out("de/a")}},
		{out("d"), []string{in("a"), in("b"), out("a"), out("de/a")}},
		{in("a"), []string{in("b"), out("a"), out("de/a")}},
		{out(""), []string{in("b")}},
		{first, nil},
	} {
		if err := tr.d.Remove(tr.Context(), c.prefix); err != nil {
			tr.Errorf("remove %s: %v", c.prefix, err)
		}
		tr.lists(first, c.left...)
	}
	tr.lists("", depot.InputKey(second, "a"), depot.RemovedKey(second))
	if err := tr.d.Remove(tr.Context(), depot.InputKey(second, "")); err != nil {
		tr.Error(err)
	}
	tr.lists("", depot.RemovedKey(second))
	tr.put(in("a"), []byte("again"))
	tr.has(in("a"), []byte("again"))
}

func (tr *trial) ended() {
	tr.put(in("a"), []byte("there"))
	cause := errors.New("the reason")
	ctx, end := context.WithCancelCause(tr.Context())
	p, err := tr.d.Create(ctx, in("a"))
	if err != nil {
		tr.Fatal(err)
	}
	defer p.Close()
	o, err := tr.d.Open(ctx, in("a"))
	if err != nil {
		tr.Fatal(err)
	}
	defer o.Close()
	end(cause)
	wrapped := func(what string, err error) {
		tr.Helper()
		if !errors.Is(err, cause) && !errors.Is(err, context.Canceled) {
			tr.Errorf("%s with an ended context: %v; want its cause", what, err)
		}
	}
	_, err = p.Write([]byte("more"))
	if err == nil {
		_, err = p.Commit()
	}
	wrapped("write and commit", err)
	_, err = io.ReadAll(o)
	wrapped("read", err)
	if _, err = tr.d.Create(ctx, in("b")); err != nil {
		wrapped("create", err)
	} else {
		tr.Error("create with an ended context is no error")
	}
	_, err = tr.d.Open(ctx, in("a"))
	wrapped("open", err)
	_, err = tr.d.List(ctx, "")
	wrapped("list", err)
	if l, ok := tr.d.(depot.ExecutionLister); ok {
		_, err = l.Executions(ctx)
		wrapped("executions", err)
	}
	if err := p.Close(); err != nil {
		tr.Errorf("close after the end of the context: %v", err)
	}
	tr.has(in("a"), []byte("there"))
	tr.lists("", in("a"))
}

func (tr *trial) closed() {
	p, err := tr.d.Create(tr.Context(), in("a"))
	if err != nil {
		tr.Fatal(err)
	}
	if _, err := p.Commit(); err != nil {
		tr.Fatal(err)
	}
	if _, err := p.Write([]byte("x")); err == nil {
		tr.Error("write after commit is no error")
	}
	if _, err := p.Commit(); err == nil {
		tr.Error("a second commit is no error")
	}
	for range 2 {
		if err := p.Close(); err != nil {
			tr.Errorf("close after commit: %v", err)
		}
	}
	if p, err = tr.d.Create(tr.Context(), in("b")); err != nil {
		tr.Fatal(err)
	}
	for range 2 {
		if err := p.Close(); err != nil {
			tr.Errorf("close: %v", err)
		}
	}
	if _, err := p.Commit(); err == nil {
		tr.Error("commit after close is no error")
	}
	if _, err := p.Write([]byte("x")); err == nil {
		tr.Error("write after close is no error")
	}
	tr.lists("", in("a"))
}

func (tr *trial) many() {
	const n = 16
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			key := out(fmt.Sprintf("d%d/f%02d", i%3, i))
			content := noise(key, 1000*i)
			info, err := write(tr.Context(), tr.d, key, content)
			if err != nil {
				tr.Errorf("write %s: %v", key, err)
				return
			}
			tr.describes(info, key, content)
			tr.has(key, content)
		})
	}
	wg.Wait()
	all, err := tr.d.List(tr.Context(), first)
	if err != nil || len(all) != n {
		tr.Errorf("there are %d files, %v; want %d", len(all), err, n)
	}
}

func (tr *trial) race() {
	// Readers see one of the contents that were written, whole, or none before the first.
	const writers, rounds = 4, 5
	sums := make(map[string]bool)
	for w := range writers {
		sums[sum(noise(fmt.Sprint(w), 200_000+w))] = true
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for range rounds {
				if _, err := write(tr.Context(), tr.d, in("a"), noise(fmt.Sprint(w), 200_000+w)); err != nil {
					tr.Errorf("writer %d: %v", w, err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				o, err := tr.d.Open(tr.Context(), in("a"))
				if errors.Is(err, courier.ErrNotFound) {
					continue
				}
				if err != nil {
					tr.Errorf("open: %v", err)
					return
				}
				content, err := io.ReadAll(o)
				o.Close()
				if err != nil && tr.c.MayLose {
					continue
				}
				if err != nil || !sums[sum(content)] || o.Info().SHA256 != sum(content) {
					tr.Errorf("a reader saw %d bytes of no writer, or of another one: %v", len(content), err)
				}
			}
		})
	}
	wg.Wait()
	tr.lists("", in("a"))
}

// removers checks that nobody gets an error while one goroutine writes and others list and
// remove.
func (tr *trial) removers() {
	const rounds = 20
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := range rounds {
				if _, err := write(tr.Context(), tr.d, out(fmt.Sprintf("%d/%d", w, i)), []byte("content")); err != nil {
					tr.Errorf("write: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				if err := tr.d.Remove(tr.Context(), first); err != nil {
					tr.Errorf("remove: %v", err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				if _, err := tr.d.List(tr.Context(), ""); err != nil {
					tr.Errorf("list: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if err := tr.d.Remove(tr.Context(), first); err != nil {
		tr.Errorf("remove: %v", err)
	}
	tr.lists("")
	tr.put(in("a"), []byte("a"))
}

func (tr *trial) mark() {
	if at, removed, err := depot.Removed(tr.Context(), tr.d, first); err != nil || removed || !at.IsZero() {
		tr.Errorf("an execution without a mark is removed: %v, %v, %v", at, removed, err)
	}
	info := tr.put(depot.RemovedKey(first), nil)
	at, removed, err := depot.Removed(tr.Context(), tr.d, first)
	const whole = time.Second // the precision of some servers
	if err != nil || !removed || at.Sub(info.Time).Abs() > whole {
		tr.Errorf("an execution with a mark: %v, %v, %v; want %v", at, removed, err, info.Time)
	}
}
