package pgp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha1"
	"io"
	"sync"
	"sync/atomic"
)

// A sealer writes an encrypted packet with an integrity check. Close must be
// called, or abandon.
//
// One goroutine hashes, one encrypts, and one writes.
type sealer struct {
	w       io.Writer
	now     []byte // the block that is being filled
	free    chan []byte
	hashing chan []byte
	line    chan []byte // to be encrypted
	out     chan []byte // to be written
	failed  atomic.Pointer[error]
	last    bool // set before hashing is closed
	all     sync.WaitGroup
}

// sealedHead is the room before the data of a block, for the length of a piece
// and the byte that is left from the piece before: since the packet's version
// comes first, the pieces begin one byte before the blocks do.
const sealedHead = 2

func newSealer(w io.Writer, c cipher.Block) *sealer {
	s := &sealer{
		w: w, free: make(chan []byte, sealedBlocks), hashing: make(chan []byte, sealedBlocks),
		line: make(chan []byte, sealedBlocks), out: make(chan []byte, sealedBlocks),
	}
	for range sealedBlocks {
		s.free <- nil
	}
	s.next()
	random := s.now[sealedHead : sealedHead+prefixSize]
	rand.Read(random[:aes.BlockSize])
	copy(random[aes.BlockSize:], random[aes.BlockSize-2:])
	s.now = s.now[:sealedHead+prefixSize]
	hashing := s.hashing
	s.all.Go(func() { s.hash(hashing) })
	s.all.Go(func() {
		defer close(s.out)
		e := newCFBEncrypter(c)
		for b := range s.line {
			e.encrypt(b[sealedHead:])
			s.out <- b
		}
	})
	s.all.Go(s.write)
	return s
}

// next takes an empty block.
func (s *sealer) next() {
	if s.now = <-s.free; s.now == nil {
		s.now = make([]byte, sealedHead+sealedSize+trailerSize)
	}
	s.now = s.now[:sealedHead]
}

// Write implements io.Writer. An error may come later than what caused it.
func (s *sealer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.now) == sealedHead+sealedSize {
			if err := s.failed.Load(); err != nil {
				return 0, *err
			}
			s.hashing <- s.now
			s.next()
		}
		k := min(sealedHead+sealedSize-len(s.now), len(p))
		s.now = append(s.now, p[:k]...)
		p = p[k:]
	}
	return n, nil
}

// Close writes the rest and leaves w open.
func (s *sealer) Close() error {
	s.last = true
	s.hashing <- s.now
	s.abandon()
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// abandon ends the goroutines and waits for them. It may be called after Close.
func (s *sealer) abandon() {
	if s.hashing != nil {
		close(s.hashing)
		s.hashing = nil
	}
	s.all.Wait()
}

// hash appends the trailer to the last block.
func (s *sealer) hash(in <-chan []byte) {
	defer close(s.line)
	h := sha1.New()
	b, ok := <-in
	for ok {
		h.Write(b[sealedHead:])
		next, more := <-in
		if !more && s.last {
			h.Write([]byte{trailerTag, sha1.Size})
			b = h.Sum(append(b, trailerTag, sha1.Size))
		}
		s.line <- b
		b, ok = next, more
	}
}

// write writes the packet in pieces.
func (s *sealer) write() {
	const version = 1
	carry, first := byte(version), true
	put := func(p ...byte) {
		if s.failed.Load() != nil {
			return
		}
		if _, err := s.w.Write(p); err != nil {
			s.failed.Store(&err)
		}
	}
	b, ok := <-s.out
	for ok {
		next, more := <-s.out
		if first {
			put(newFormat | tagProtected)
			first = false
		}
		b[1] = carry
		if more {
			b[0] = partialLength(sealedBits)
			put(b[:sealedHead+sealedSize-1]...)
			carry = b[sealedHead+sealedSize-1]
		} else {
			put(appendLength(nil, len(b)-1)...)
			put(b[1:]...)
		}
		s.free <- b
		b, ok = next, more
	}
}
