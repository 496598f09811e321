package pgpstream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha1"
	"io"
	"sync"
	"sync/atomic"
)

// A seipdWriter writes a packet of the type SEIPD, version 1: encrypted data with an
// integrity check at the end. Close or abandon must be called.
//
// One goroutine hashes, one encrypts, and one writes.
type seipdWriter struct {
	w          io.Writer
	now        []byte // the block that is being filled
	free       chan []byte
	hashing    chan []byte
	encrypting chan []byte
	writing    chan []byte
	failed     atomic.Pointer[error]
	last       bool // set before hashing is closed
	all        sync.WaitGroup
}

// seipdBlockHead is the room before the data of a block. It is for the length of a piece, and for
// the last byte of the previous piece: since the packet's version comes first, the pieces begin
// one byte before the blocks.
const seipdBlockHead = 2

func newSEIPDWriter(w io.Writer, c cipher.Block) *seipdWriter {
	s := &seipdWriter{
		w: w, free: make(chan []byte, seipdBlocks), hashing: make(chan []byte, seipdBlocks),
		encrypting: make(chan []byte, seipdBlocks), writing: make(chan []byte, seipdBlocks),
	}
	for range seipdBlocks {
		s.free <- nil
	}
	s.next()
	random := s.now[seipdBlockHead : seipdBlockHead+prefixSize]
	rand.Read(random[:aes.BlockSize])
	copy(random[aes.BlockSize:], random[aes.BlockSize-2:])
	s.now = s.now[:seipdBlockHead+prefixSize]
	hashing := s.hashing
	s.all.Go(func() { s.hash(hashing) })
	s.all.Go(func() {
		defer close(s.writing)
		e := newCFBEncrypter(c)
		for b := range s.encrypting {
			e.encrypt(b[seipdBlockHead:])
			s.writing <- b
		}
	})
	s.all.Go(s.write)
	return s
}

// next takes an empty block.
func (s *seipdWriter) next() {
	if s.now = <-s.free; s.now == nil {
		s.now = make([]byte, seipdBlockHead+seipdBlockSize+trailerSize)
	}
	s.now = s.now[:seipdBlockHead]
}

// Write implements io.Writer. An error may be returned later than its cause.
func (s *seipdWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		if len(s.now) == seipdBlockHead+seipdBlockSize {
			if err := s.failed.Load(); err != nil {
				return 0, *err
			}
			s.hashing <- s.now
			s.next()
		}
		k := min(seipdBlockHead+seipdBlockSize-len(s.now), len(p))
		s.now = append(s.now, p[:k]...)
		p = p[k:]
	}
	return n, nil
}

// Close writes the remaining data and leaves w open.
func (s *seipdWriter) Close() error {
	s.last = true
	s.hashing <- s.now
	s.abandon()
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// abandon ends the goroutines and waits for them. It may be called after Close.
func (s *seipdWriter) abandon() {
	if s.hashing != nil {
		close(s.hashing)
		s.hashing = nil
	}
	s.all.Wait()
}

// hash appends the trailer to the last block.
func (s *seipdWriter) hash(in <-chan []byte) {
	defer close(s.encrypting)
	h := sha1.New()
	b, ok := <-in
	for ok {
		h.Write(b[seipdBlockHead:])
		next, more := <-in
		if !more && s.last {
			h.Write([]byte{trailerTag, sha1.Size})
			b = h.Sum(append(b, trailerTag, sha1.Size))
		}
		s.encrypting <- b
		b, ok = next, more
	}
}

// write writes the packet in pieces.
func (s *seipdWriter) write() {
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
	b, ok := <-s.writing
	for ok {
		next, more := <-s.writing
		if first {
			put(newFormat | tagProtected)
			first = false
		}
		b[1] = carry
		if more {
			b[0] = partialLength(seipdBlockBits)
			put(b[:seipdBlockHead+seipdBlockSize-1]...)
			carry = b[seipdBlockHead+seipdBlockSize-1]
		} else {
			put(appendLength(nil, len(b)-1)...)
			put(b[1:]...)
		}
		s.free <- b
		b, ok = next, more
	}
}
