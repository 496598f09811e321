package pgp

import (
	"io"
	"sync"
)

// An aheadReader reads ahead in a goroutine. Close must be called.
type aheadReader struct {
	free chan []byte
	out  chan []byte
	stop chan struct{}
	once sync.Once
	all  sync.WaitGroup
	now  []byte
	rest []byte
	err  error // set before out is closed
}

// aheadBlocks is how many buffers a reader has.
const aheadBlocks = 4

func readAhead(r io.Reader) *aheadReader {
	a := &aheadReader{free: make(chan []byte, aheadBlocks), out: make(chan []byte, aheadBlocks), stop: make(chan struct{})}
	for range aheadBlocks {
		a.free <- make([]byte, bufSize)
	}
	a.all.Go(func() { a.fill(r) })
	return a
}

func (a *aheadReader) fill(r io.Reader) {
	defer close(a.out)
	for a.err == nil {
		var b []byte
		select {
		case b = <-a.free:
		case <-a.stop:
			a.err = io.ErrClosedPipe
			return
		}
		b = b[:cap(b)]
		n := 0
		for n < len(b) && a.err == nil {
			var k int
			k, a.err = r.Read(b[n:])
			n += k
		}
		a.out <- b[:n]
	}
}

// Read implements io.Reader.
func (a *aheadReader) Read(p []byte) (int, error) {
	for len(a.rest) == 0 {
		if a.now != nil {
			a.free <- a.now
			a.now = nil
		}
		b, ok := <-a.out
		if !ok {
			return 0, a.err
		}
		a.now, a.rest = b, b
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// Close ends the goroutine and waits for it. Nil may be closed.
func (a *aheadReader) Close() {
	if a == nil {
		return
	}
	a.once.Do(func() { close(a.stop) })
	a.all.Wait()
}
