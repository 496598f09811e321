// Package uuid7 makes UUIDs of version 7 (RFC 9562), which sort by the time
// they were made.
package uuid7

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
	"time"
)

// A Source makes UUIDs that are strictly increasing, also within one instant
// and when the clock is set back. Its zero value is ready to use, it may be
// used by any number of goroutines, and it must not be copied after first use.
//
// The first 48 bits are Unix milliseconds, the next 12 the fraction of the
// millisecond (RFC 9562, section 6.2, method 3), the last 62 are random. While
// the clock does not advance by a 4096th of a millisecond between two UUIDs,
// the Source counts on from the last one.
type Source struct {
	last atomic.Int64 // 4096ths of a millisecond since 1970
}

// New returns a UUID in its usual form of 36 characters, in lower case.
func (s *Source) New() string {
	t := s.tick(time.Now())
	var b [16]byte
	rand.Read(b[8:]) // documented never to fail
	binary.BigEndian.PutUint64(b[:8], uint64(t)>>12<<16|7<<12|uint64(t)&0xfff)
	b[8] = b[8]&0x3f | 0x80
	return format(b)
}

// tick returns the time of the next UUID: now, or just after the last one.
func (s *Source) tick(now time.Time) int64 {
	ms := now.UnixMilli()
	t := ms<<12 | int64(now.Sub(time.UnixMilli(ms)))<<12/int64(time.Millisecond)
	for {
		last := s.last.Load()
		next := max(t, last+1)
		if s.last.CompareAndSwap(last, next) {
			return next
		}
	}
}

func format(b [16]byte) string {
	var text [36]byte
	hex.Encode(text[:8], b[:4])
	hex.Encode(text[9:13], b[4:6])
	hex.Encode(text[14:18], b[6:8])
	hex.Encode(text[19:23], b[8:10])
	hex.Encode(text[24:], b[10:])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return string(text[:])
}

// First returns the lowest UUID that a [Source] makes at an instant or later, in whole
// milliseconds. Instants before 1970 count as 1970.
func First(at time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(max(0, at.UnixMilli()))<<16|7<<12)
	b[8] = 0x80
	return format(b)
}
