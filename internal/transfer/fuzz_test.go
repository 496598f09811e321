package transfer_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/courierhq/courier/internal/transfer"
)

// A choppy source gives its content in pieces of the sizes that plan says, one
// byte each; 255 stands for an error, 254 for nothing at all.
type choppy struct {
	plan    []byte
	content []byte
	broken  bool
}

var errBroken = errors.New("broken")

func (c *choppy) Read(p []byte) (int, error) {
	n := len(p)
	if len(c.plan) > 0 {
		n, c.plan = int(c.plan[0]), c.plan[1:]
		switch n {
		case 255:
			c.broken = true
			return 0, errBroken
		case 254:
			return 0, nil
		}
	}
	n = copy(p[:min(n, len(p))], c.content)
	if c.content = c.content[n:]; len(c.content) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// FuzzCopy copies from a source that gives what it has in any pieces. What
// arrives is the beginning of it, and all of it unless there was an error.
func FuzzCopy(f *testing.F) {
	f.Add([]byte("content"), []byte{1, 254, 3}, int64(100))
	f.Add([]byte("content"), []byte{1, 255}, int64(3))
	f.Add([]byte(""), []byte{}, int64(0))
	f.Add([]byte("content that is longer"), []byte{16, 0, 0}, int64(270))
	f.Fuzz(func(t *testing.T, content, plan []byte, limit int64) {
		want := content
		if limit >= 0 && limit < int64(len(want)) {
			want = want[:limit]
		}
		for _, copied := range []func(io.Writer, io.Reader, func(int64)) (int64, error){
			func(w io.Writer, r io.Reader, report func(int64)) (int64, error) {
				return transfer.Copy(t.Context(), w, &io.LimitedReader{R: r, N: max(0, limit)}, report)
			},
			func(w io.Writer, r io.Reader, report func(int64)) (int64, error) {
				return io.Copy(w, transfer.NewReader(t.Context(), io.LimitReader(r, max(0, limit)), report))
			},
		} {
			src := &choppy{plan: plan, content: content}
			var got bytes.Buffer
			var last int64
			n, err := copied(&got, src, func(done int64) {
				if done < last {
					t.Errorf("%d bytes are reported after %d", done, last)
				}
				last = done
			})
			if n != int64(got.Len()) || last != n || !bytes.HasPrefix(want, got.Bytes()) {
				t.Errorf("%d bytes, %d reported, %q of %q", n, last, got.Bytes(), want)
			}
			if src.broken != errors.Is(err, errBroken) || err == nil && limit > 0 && got.Len() != len(want) {
				t.Errorf("%q of %q, %v", got.Bytes(), want, err)
			}
		}
	})
}
