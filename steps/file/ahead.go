package file

import (
	"fmt"
	"io"
	"sync"
)

const (
	aheadPieces = 4
	aheadPiece  = 256 << 10
	// aheadFrom is the least size of a content for which reading ahead pays.
	aheadFrom = 2 << 20
)

// An aheadReader reads in a goroutine of its own, so that unpacking goes on
// while what was unpacked is being written. It must be stopped, and only then
// may the reader below it be used again.
type aheadReader struct {
	full  chan piece
	free  chan []byte
	quit  chan struct{}
	ended sync.WaitGroup
	now   piece
	rest  []byte // of now
}

// A piece is what was read, and the error that came after it.
type piece struct {
	b   []byte
	err error
}

func readAhead(r io.Reader) *aheadReader {
	a := &aheadReader{full: make(chan piece, aheadPieces), free: make(chan []byte, aheadPieces), quit: make(chan struct{})}
	for range aheadPieces {
		a.free <- make([]byte, aheadPiece)
	}
	a.ended.Go(func() {
		for {
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
	})
	return a
}

// readPiece fills b, unless there is an error before.
func readPiece(r io.Reader, b []byte) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			n, err = 0, fmt.Errorf("panic while unpacking: %v", p)
		}
	}()
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// Read gives what was read.
func (a *aheadReader) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.b != nil {
			a.free <- a.now.b[:cap(a.now.b)]
		}
		a.now = <-a.full
		a.rest = a.now.b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// stop ends the goroutine and waits for it.
func (a *aheadReader) stop() {
	close(a.quit)
	a.ended.Wait()
}
