package archive

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
)

// TestUnfaithful changes what was packed, or what it must unpack to, and expects that the
// comparison finds it. The block in the middle refers to the history of the one before.
func TestUnfaithful(t *testing.T) {
	c, err := newDeflater()
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	for i := range 2000 {
		text = fmt.Appendf(text, "%d GET /orders/%d\n", i, i*i%977)
	}
	history, src := text[:deflateHistory/2], text[deflateHistory/2:]
	for _, b := range []*block{
		{src: src, last: true}, {src: src}, {history: history, src: src, last: true}, {history: history, src: src}, {last: true}, {},
	} {
		name := fmt.Sprintf("%d bytes after %d, last %v", len(b.src), len(b.history), b.last)
		if err := c.pack(b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		packed := b.dst
		try := func(what string, dst, src, history []byte, last bool) {
			t.Helper()
			if err := c.compare(&block{dst: dst, src: src, history: history, last: last}); !errors.Is(err, errUnfaithful) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
		try("more expected", packed, append(bytes.Clone(b.src), 'x'), b.history, b.last)
		try("another end", packed, b.src, b.history, !b.last)
		try("nothing packed", nil, append(bytes.Clone(b.src), 'x'), b.history, b.last)
		if len(b.src) == 0 {
			continue
		}
		try("less expected", packed, b.src[:len(b.src)-1], b.history, b.last)
		try("cut", packed[:len(packed)/2], b.src, b.history, b.last)
		for _, at := range []int{0, len(packed) / 3, len(packed) / 2} {
			bad := bytes.Clone(packed)
			bad[at] ^= 0x10
			try(fmt.Sprint("byte ", at, " changed"), bad, b.src, b.history, b.last)
		}
		if len(b.history) > 0 {
			try("another history", packed, b.src, bytes.ToUpper(b.history), b.last)
		}
		if err := c.compare(&block{dst: packed, src: b.src, history: b.history, last: b.last}); err != nil {
			t.Errorf("%s, after the others: %v", name, err)
		}
	}
}
