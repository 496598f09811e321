package transfer_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

func TestGuardRate(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits transfer.Limits
		piece  int64         // bytes
		every  time.Duration // of which one comes
		ends   time.Duration // 0 means never
	}{
		{"default, slower", transfer.Limits{}, 512, 50 * time.Second, 5 * time.Minute},
		{"default, just slower", transfer.Limits{}, 1000, time.Second, 5 * time.Minute},
		{"default, just faster", transfer.Limits{}, 1025, time.Second, 0},
		{"default, in bursts", transfer.Limits{}, 1 << 20, 4 * time.Minute, 0},
		{"none", transfer.Limits{MinRate: -1}, 1, 50 * time.Second, 0},
		{"higher", transfer.Limits{MinRate: 1 << 20}, 1 << 19, time.Second, 5 * time.Minute},
		{"bandwidth", transfer.Limits{}.Slowed(1024), 1024, 10 * time.Second, 0},
		{"listing", transfer.Limits{}.Listing(), 100, time.Second, 0},
		{"slow listing", transfer.Limits{}.Listing(), 60, time.Second, 5 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, g := c.limits.Guard(t.Context())
			defer g.End()
			g.At(0)
			began, done := time.Now(), int64(0)
			for ctx.Err() == nil && time.Since(began) < 24*time.Hour {
				time.Sleep(c.every)
				done += c.piece
				g.At(done)
			}
			took := time.Since(began)
			if c.ends == 0 && ctx.Err() != nil || c.ends > 0 && (took < c.ends || took > c.ends+c.every) {
				t.Errorf("%s: ends after %v: %v", c.name, took, context.Cause(ctx))
			}
			if c.ends > 0 && (courier.IsPermanent(context.Cause(ctx)) || !strings.Contains(context.Cause(ctx).Error(), "min_bytes_per_second")) {
				t.Errorf("%s: %v", c.name, context.Cause(ctx))
			}
		})
	}
}

// TestGuardPhases reads a file again after a long silence: that is no slow
// transfer.
func TestGuardPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, g := transfer.Limits{}.Guard(t.Context())
		defer g.End()
		time.Sleep(time.Hour)
		g.At(1)
		g.At(1 << 20)
		time.Sleep(time.Hour)
		g.At(1)
		if ctx.Err() != nil {
			t.Error(context.Cause(ctx))
		}
	})
}

func TestGuardSize(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	free, ok := transfer.Room(root, ".")
	if !ok {
		t.Fatal("the free space is not known")
	}
	for _, c := range []struct {
		limits     transfer.Limits
		size, have int64
		permanent  bool
		want       string // empty means that it fits
	}{
		{transfer.Limits{}, 1 << 20, 0, false, ""},
		{transfer.Limits{}, -1, 0, false, ""},
		{transfer.Limits{}, 1 << 50, 0, true, "max_bytes allows 1099511627776"},
		{transfer.Limits{MaxBytes: 10}, 11, 0, true, "has 11 bytes, and max_bytes allows 10"},
		{transfer.Limits{MaxBytes: 10}, 10, 0, false, ""},
		{transfer.Limits{}.Capped(10), 11, 0, true, "max_bytes allows 10"},
		{transfer.Limits{MaxBytes: 10}.Capped(20), 11, 0, true, "max_bytes allows 10"},
		{transfer.Limits{MaxBytes: -1}, 1 << 60, 0, false, "more are needed; make room"},
		{transfer.Limits{MaxBytes: -1}, 1 << 60, 1<<60 - 10, false, ""},
		{transfer.Limits{MaxBytes: -1, KeepFree: -1}, 1 << 60, 0, false, ""},
		{transfer.Limits{KeepFree: int64(free) + 1<<40}, 1, 0, false, "keep_free_bytes"},
	} {
		_, g := c.limits.Guard(t.Context())
		err := g.Fits(c.size, c.have, root, ".")
		g.End()
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || courier.IsPermanent(err) != c.permanent) {
			t.Errorf("%+v: %d bytes: %v, want %q", c.limits, c.size, err, c.want)
		}
	}
	var none *transfer.Guard
	if none.At(1); none.Fits(1<<60, 0, root, ".") != nil {
		t.Error("no guard refuses a file")
	}
}

// A file that leaves just what is kept free fits, and a byte more does not.
func TestGuardRoom(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for size, fits := range map[int64]bool{10: true, 11: false} {
		_, g := transfer.Limits{KeepFree: 100}.Guard(t.Context())
		g.OnDisk(func(*os.Root, string) (uint64, bool) { return 110, true })
		if err := g.Fits(size, 0, root, "."); (err == nil) != fits {
			t.Errorf("%d bytes: %v", size, err)
		}
		g.End()
	}
}

// TestGuardLooks fills a disk while a file is written to it, of which the size is
// known or not. The guard looks every 16 MiB, and ends what would fill the disk.
func TestGuardLooks(t *testing.T) {
	const mib, disk = 1 << 20, 200 << 20
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, size := range []int64{-1, 100 * mib} {
		ctx, g := transfer.Limits{}.Guard(t.Context())
		looks, written, others := 0, int64(0), int64(0)
		g.OnDisk(func(at *os.Root, dir string) (uint64, bool) {
			if looks++; at != root || dir != "d" {
				t.Errorf("it looks at %s in %s", dir, at.Name())
			}
			return uint64(disk - written - others), true
		})
		if err := g.Fits(size, 0, root, "d"); err != nil {
			t.Fatal(err)
		}
		for ; ctx.Err() == nil && written < 100*mib; written += mib / 2 {
			if written == 40*mib {
				others = disk - 40*mib - transfer.DefaultKeepFree // somebody else writes, too
			}
			g.At(written)
		}
		if err := context.Cause(ctx); err == nil || courier.IsPermanent(err) || !strings.Contains(err.Error(), "make room") || written > 49*mib {
			t.Errorf("size %d: after %d MiB: %v", size, written/mib, err)
		}
		if looks != 4 { // at the beginning, and after 16, 32 and 48 MiB
			t.Errorf("size %d: it looks %d times", size, looks)
		}
		g.End()
	}
}

// TestGuardWatch looks at a disk only after much was written to it, and says what
// sets how much of it stays free.
func TestGuardWatch(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, g := transfer.Space(100, "the option").Guard(t.Context())
	defer g.End()
	looks := 0
	g.OnDisk(func(*os.Root, string) (uint64, bool) { looks++; return 99, true })
	g.Watch(root, "d")
	if g.At(16<<20 - 1); looks > 0 || ctx.Err() != nil {
		t.Errorf("it looks at %d bytes: %v", 16<<20-1, context.Cause(ctx))
	}
	if g.At(16 << 20); looks != 1 || ctx.Err() == nil {
		t.Errorf("it looks %d times at 16 MiB", looks)
	}
	want := "the file system of " + root.Name() + "/d has 99 bytes left, of which 100 are kept free (the option), and 0 more are needed; make room, then try again"
	if err := context.Cause(ctx); err == nil || err.Error() != want || courier.ClassOf(err) != courier.ReasonSpace {
		t.Errorf("%v of the class %s, want %s", err, courier.ClassOf(err), want)
	}
}
