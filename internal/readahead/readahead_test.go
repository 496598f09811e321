package readahead_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/courierhq/courier/internal/readahead"
)

// TestReader reads everything in order, whatever the sizes are, and the error that
// ends it.
func TestReader(t *testing.T) {
	broken := errors.New("broken")
	for _, size := range []int{1, 3, 16, 1000} {
		for _, n := range []int{0, 1, 15, 16, 17, 64, 65, 999, 4001} {
			want := bytes.Repeat([]byte("0123456"), n/7+1)[:n]
			for _, end := range []error{io.EOF, broken} {
				a := readahead.New(io.MultiReader(iotest.HalfReader(bytes.NewReader(want)), iotest.ErrReader(end)), size)
				got, err := io.ReadAll(a)
				if !bytes.Equal(got, want) || (end == broken) != (err == broken) || end == io.EOF && err != nil {
					t.Errorf("buffers of %d: %d bytes become %d, %v", size, n, len(got), err)
				}
				a.Close()
				a.Close()
			}
		}
	}
	(*readahead.Reader)(nil).Close()
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("no good") }

// TestReaderPanics makes an error of a panic in the goroutine.
func TestReaderPanics(t *testing.T) {
	a := readahead.New(panicking{}, 16)
	defer a.Close()
	if _, err := a.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "no good") {
		t.Errorf("the error is %v", err)
	}
}

type counting struct{ reads int }

func (c *counting) Read(p []byte) (int, error) { c.reads++; return len(p), nil }

// TestReaderCloses ends the goroutine though nobody has read to the end, and
// reading too.
func TestReaderCloses(t *testing.T) {
	c := new(counting)
	a := readahead.New(c, 16)
	if n, err := a.Read(make([]byte, 5)); n != 5 || err != nil {
		t.Errorf("Read = %d, %v", n, err)
	}
	a.Close()
	reads := c.reads
	for range 10 {
		if _, err := io.CopyN(io.Discard, a, 1<<20); err != io.ErrClosedPipe {
			t.Errorf("the error is %v", err)
		}
	}
	if c.reads != reads {
		t.Errorf("read %d times more after it was closed", c.reads-reads)
	}
}
