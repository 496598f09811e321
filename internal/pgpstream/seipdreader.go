package pgpstream

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha1"
	"crypto/subtle"
	"errors"
	"io"
	"runtime"
	"sync"
)

// errIntegrity is the error of a stream with a wrong hash.
var errIntegrity = errors.New("the integrity check does not hold")

// A seipdBlock is a part of the stream.
type seipdBlock struct {
	data   []byte // of at most seipdBlockSize bytes, and the trailer behind the last one
	before [aes.BlockSize]byte
	ready  chan struct{} // gets one element when data is decrypted
	last   bool
	err    error // of the last one
}

// A seipdReader reads the plaintext of a packet of type SEIPD, version 1: encrypted data with an
// integrity check at the end. Read returns plaintext before it is checked, and io.EOF only if the
// check succeeds. Close must be called.
//
// One goroutine reads, up to four decrypt, and one hashes. They share a fixed number of blocks.
type seipdReader struct {
	r       io.Reader // of the packet's content, without the version
	free    chan *seipdBlock
	work    chan *seipdBlock // to be decrypted
	ordered chan *seipdBlock // the same blocks in their order
	out     chan *seipdBlock // with the plaintext
	stop    chan struct{}
	once    sync.Once
	all     sync.WaitGroup

	now  *seipdBlock // that is being read
	rest []byte      // of its plaintext
	head int         // bytes that are not content
	err  error       // once there is one
}

func newSEIPDReader(r io.Reader, c cipher.Block) *seipdReader {
	u := &seipdReader{
		r: r, head: prefixSize, free: make(chan *seipdBlock, seipdBlocks), work: make(chan *seipdBlock, seipdBlocks),
		ordered: make(chan *seipdBlock, seipdBlocks), out: make(chan *seipdBlock, seipdBlocks), stop: make(chan struct{}),
	}
	for range seipdBlocks {
		u.free <- &seipdBlock{ready: make(chan struct{}, 1)}
	}
	u.all.Go(u.fill)
	for range min(4, runtime.GOMAXPROCS(0)) {
		u.all.Go(func() {
			d := cfbDecrypter{c: c}
			for b := range u.work {
				d.decrypt(b.data, b.before)
				b.ready <- struct{}{}
			}
		})
	}
	u.all.Go(u.hash)
	return u
}

// fill reads the ciphertext. It sends a block only after it has read the next one, so that a
// block contains the whole trailer if it contains its beginning.
func (u *seipdReader) fill() {
	defer close(u.work)
	defer close(u.ordered)
	var before [aes.BlockSize]byte
	send := func(b *seipdBlock) {
		b.before = before
		if n := len(b.data); n >= aes.BlockSize {
			copy(before[:], b.data[n-aes.BlockSize:])
		}
		u.work <- b
		u.ordered <- b
	}
	var back *seipdBlock
	for {
		var b *seipdBlock
		select {
		case b = <-u.free:
		case <-u.stop:
			return
		}
		err := b.read(u.r)
		switch {
		case err == io.EOF && back != nil && len(b.data) < trailerSize:
			back.data = append(back.data, b.data...)
			back.last = true
			send(back)
			return
		case back != nil:
			send(back)
		}
		back = b
		if err != nil {
			b.last = true
			if err != io.EOF {
				b.err = err
			}
			send(b)
			return
		}
	}
}

// read fills a block. Its error is nil if the block is full.
func (b *seipdBlock) read(r io.Reader) error {
	if b.data == nil {
		b.data = make([]byte, 0, seipdBlockSize+trailerSize)
	}
	b.data, b.last, b.err = b.data[:0], false, nil
	for len(b.data) < seipdBlockSize {
		n, err := r.Read(b.data[len(b.data):seipdBlockSize])
		b.data = b.data[:len(b.data)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// hash computes the hash of the plaintext, and compares it at the end.
func (u *seipdReader) hash() {
	defer close(u.out)
	h := sha1.New()
	size := int64(0)
	for b := range u.ordered {
		<-b.ready
		size += int64(len(b.data))
		switch {
		case b.err != nil || !b.last:
			h.Write(b.data)
		case size < prefixSize+trailerSize:
			b.data, b.err = b.data[:0], errIntegrity
		default:
			content, trailer := b.data[:len(b.data)-trailerSize], b.data[len(b.data)-trailerSize:]
			h.Write(content)
			h.Write(trailer[:2])
			good := subtle.ConstantTimeCompare(h.Sum(nil), trailer[2:])
			if good&subtle.ConstantTimeCompare(trailer[:2], []byte{trailerTag, sha1.Size}) != 1 {
				b.err = errIntegrity
			}
			b.data = content
		}
		u.out <- b
	}
}

// Read implements io.Reader.
func (u *seipdReader) Read(p []byte) (int, error) {
	for len(u.rest) == 0 {
		if u.err != nil {
			return 0, u.err
		}
		if u.now != nil {
			u.free <- u.now
			u.now = nil
		}
		b, ok := <-u.out
		if !ok {
			u.err = errIntegrity // closed before its end
			return 0, u.err
		}
		skip := min(u.head, len(b.data))
		u.now, u.rest, u.head = b, b.data[skip:], u.head-skip
		if b.last {
			if u.err = b.err; u.err == nil {
				u.err = io.EOF
			}
		}
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// checked reports whether everything has been read and the check has succeeded.
func (u *seipdReader) checked() bool { return u.err == io.EOF && len(u.rest) == 0 }

// Close ends the goroutines and waits for them. After that nothing reads from the packet. It may
// be called on a nil seipdReader.
func (u *seipdReader) Close() {
	if u == nil {
		return
	}
	u.once.Do(func() { close(u.stop) })
	u.all.Wait()
}
