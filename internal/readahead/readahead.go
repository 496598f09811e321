// Package readahead reads from a slow reader in a goroutine of its own, so that
// what it gives can be worked on meanwhile.
package readahead

import (
	"fmt"
	"io"
	"sync"
)

// pieces is how many buffers a [Reader] has.
const pieces = 4

// A Reader reads ahead: four buffers at most. It must be closed, and only then may
// the reader below it be used again.
type Reader struct {
	full  chan piece
	free  chan []byte
	quit  chan struct{}
	once  sync.Once
	ended sync.WaitGroup
	now   piece
	rest  []byte // of now
}

// A piece is what was read, and the error that came after it.
type piece struct {
	b   []byte
	err error
}

// New begins to read r, in buffers of size bytes. A panic of r becomes an error.
func New(r io.Reader, size int) *Reader {
	a := &Reader{full: make(chan piece, pieces), free: make(chan []byte, pieces), quit: make(chan struct{})}
	for range pieces {
		a.free <- make([]byte, size)
	}
	a.ended.Go(func() { a.fill(r) })
	return a
}

func (a *Reader) fill(r io.Reader) {
	for {
		select {
		case <-a.quit:
			return
		default:
		}
		select {
		case <-a.quit:
			return
		case b := <-a.free:
			n, err := readPiece(r, b)
			a.full <- piece{b[:n], err} // there are no more pieces than it has room for
			if err != nil {
				return
			}
		}
	}
}

// readPiece fills b, unless there is an error before.
func readPiece(r io.Reader, b []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			n, err = 0, fmt.Errorf("panic while reading ahead: %v", p)
		}
	}()
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// Read returns what was read, and then the error that ended it.
func (a *Reader) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.b != nil {
			a.free <- a.now.b[:cap(a.now.b)]
			a.now = piece{}
		}
		select {
		case a.now = <-a.full:
		case <-a.quit:
			return 0, io.ErrClosedPipe
		}
		a.rest = a.now.b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Close ends the goroutine, and waits for a read that is under way. A nil Reader
// may be closed, and a closed one again.
func (a *Reader) Close() {
	if a == nil {
		return
	}
	a.once.Do(func() { close(a.quit) })
	a.ended.Wait()
}
