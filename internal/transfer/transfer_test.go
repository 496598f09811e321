package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/courierhq/courier/internal/transfer"
)

var errCause = errors.New("told to stop")

func sample(n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestCopy(t *testing.T) {
	for _, size := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 9<<20 + 7} {
		want := sample(size)
		check := func(name string, got []byte, n int64, err error, reports []int64) {
			t.Helper()
			if err != nil || n != int64(size) || !bytes.Equal(got, want) {
				t.Errorf("%s of %d bytes: n = %d, error %v, content equal %v", name, size, n, err, bytes.Equal(got, want))
			}
			if !slices.IsSorted(reports) {
				t.Errorf("%s of %d bytes: reports go backwards: %v", name, size, reports)
			}
			if size > 0 && (len(reports) == 0 || reports[len(reports)-1] != int64(size)) {
				t.Errorf("%s of %d bytes: reports %v don't end with the size", name, size, reports)
			}
		}
		var reports []int64
		report := func(n int64) { reports = append(reports, n) }

		var b bytes.Buffer
		n, err := transfer.Copy(t.Context(), &b, bytes.NewReader(want), report)
		check("memory", b.Bytes(), n, err, reports)

		b.Reset()
		reports = nil
		n, err = transfer.Copy(t.Context(), &b, iotest.DataErrReader(bytes.NewReader(want)), report)
		check("data with EOF", b.Bytes(), n, err, reports)

		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "src"), want, 0o600); err != nil {
			t.Fatal(err)
		}
		src, err1 := os.Open(filepath.Join(dir, "src"))
		dst, err2 := os.Create(filepath.Join(dir, "dst"))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		reports = nil
		n, err = transfer.Copy(t.Context(), dst, src, report)
		got, _ := os.ReadFile(filepath.Join(dir, "dst"))
		check("files", got, n, err, reports)

		if _, err := src.Seek(0, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		half := &io.LimitedReader{R: src, N: int64(size / 2)}
		n, err = transfer.Copy(t.Context(), dst, half, nil)
		if n != int64(size/2) || err != nil || half.N != 0 {
			t.Errorf("half of %d bytes: Copy = %d, %v, %d left", size, n, err, half.N)
		}
		src.Close()
		dst.Close()

		b.Reset()
		reports = nil
		n, err = io.CopyBuffer(struct{ io.Writer }{&b}, transfer.NewReader(t.Context(), bytes.NewReader(want), report), make([]byte, 10_000))
		check("reader", b.Bytes(), n, err, reports)
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestCopyStops(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	n, err := transfer.Copy(ctx, io.Discard, zeros{}, func(done int64) {
		if done >= 1<<20 {
			cancel(errCause)
		}
	})
	if n != 1<<20 || err != errCause {
		t.Errorf("Copy = %d, %v; want %d, %v", n, err, 1<<20, errCause)
	}
	if n, err := transfer.Copy(ctx, io.Discard, zeros{}, nil); n != 0 || err != errCause {
		t.Errorf("Copy after the end = %d, %v; want 0, %v", n, err, errCause)
	}
	if n, err := transfer.NewReader(ctx, zeros{}, nil).Read(make([]byte, 8)); n != 0 || err != errCause {
		t.Errorf("Read after the end = %d, %v; want 0, %v", n, err, errCause)
	}
}

// A cancelled step closes its connection; what the reads then say is noise.
func TestCopyHidesConsequences(t *testing.T) {
	for _, name := range []string{"copy", "reader"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		src := readFunc(func([]byte) (int, error) {
			cancel(errCause)
			return 0, errors.New("use of closed connection")
		})
		var err error
		if name == "copy" {
			_, err = transfer.Copy(ctx, io.Discard, src, nil)
		} else {
			_, err = transfer.NewReader(ctx, src, nil).Read(nil)
		}
		if err != errCause {
			t.Errorf("%s: error %v, want %v", name, err, errCause)
		}
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func TestCopyErrors(t *testing.T) {
	full := errors.New("no space")
	for name, c := range map[string]struct {
		src  io.Reader
		dst  io.Writer
		n    int64
		want error
	}{
		"read":      {io.MultiReader(bytes.NewReader(make([]byte, 10)), iotest.ErrReader(full)), io.Discard, 10, full},
		"write":     {bytes.NewReader(make([]byte, 10)), writeFunc(func([]byte) (int, error) { return 4, full }), 4, full},
		"short":     {bytes.NewReader(make([]byte, 10)), writeFunc(func([]byte) (int, error) { return 4, nil }), 4, io.ErrShortWrite},
		"negative":  {bytes.NewReader(make([]byte, 10)), writeFunc(func([]byte) (int, error) { return -1, full }), 0, full},
		"overcount": {bytes.NewReader(make([]byte, 10)), writeFunc(func([]byte) (int, error) { return 11, nil }), 10, io.ErrShortWrite},
	} {
		n, err := transfer.Copy(t.Context(), c.dst, c.src, nil)
		if n != c.n || !errors.Is(err, c.want) {
			t.Errorf("%s: Copy = %d, %v; want %d, %v", name, n, err, c.n, c.want)
		}
	}
	if _, err := transfer.Copy(t.Context(), io.Discard, readFunc(func(p []byte) (int, error) { return len(p) + 1, nil }), nil); err == nil {
		t.Error("an impossible count of a reader is accepted")
	}
}

// From file to file the kernel copies, and what it can't do is told.
func TestCopyFileErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(name, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) *os.File {
		f, err := os.OpenFile(name, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	closed := open(os.O_RDONLY)
	closed.Close()
	for what, files := range map[string][2]*os.File{
		"a target that can only be read": {open(os.O_RDONLY), open(os.O_RDONLY)},
		"a closed source":                {open(os.O_RDWR), closed},
	} {
		if n, err := transfer.Copy(t.Context(), files[0], files[1], nil); err == nil || n != 0 {
			t.Errorf("%s: Copy = %d, %v", what, n, err)
		}
	}
}

func TestCopyAllocations(t *testing.T) {
	src := bytes.NewReader(make([]byte, 1<<20))
	n := testing.AllocsPerRun(20, func() {
		src.Reset(make([]byte, 0))
		transfer.Copy(t.Context(), io.Discard, src, nil)
	})
	if n > 2 {
		t.Errorf("%v allocations for a copy, want at most 2", n)
	}
}
