package inflate

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"hash"
	"hash/adler32"
	"io"
)

// NewZlibReader returns a reader of the zlib format, of which it has read the
// header. Besides those of a [Reader] it has the errors of package zlib.
func NewZlibReader(src *bufio.Reader) (io.Reader, error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(src, head); err != nil {
		return nil, early(err)
	}
	const deflate, largestWindow, dictionary = 8, 7, 1 << 5
	switch {
	case head[0]&15 != deflate, head[0]>>4 > largestWindow, binary.BigEndian.Uint16(head)%31 != 0:
		return nil, zlib.ErrHeader
	case head[1]&dictionary != 0:
		return nil, zlib.ErrDictionary
	}
	return &zlibReader{src: src, r: NewReader(src), sum: adler32.New()}, nil
}

type zlibReader struct {
	src *bufio.Reader
	r   *Reader
	sum hash.Hash32
	err error
}

// Read implements [io.Reader]. It ends with io.EOF only if the sum is right.
func (z *zlibReader) Read(p []byte) (int, error) {
	if z.err != nil {
		return 0, z.err
	}
	n, err := z.r.Read(p)
	z.sum.Write(p[:n])
	if err == io.EOF {
		err = z.trailer()
	}
	z.err = err
	return n, err
}

func (z *zlibReader) trailer() error {
	sum := make([]byte, adler32.Size)
	if _, err := io.ReadFull(z.src, sum); err != nil {
		return early(err)
	}
	if binary.BigEndian.Uint32(sum) != z.sum.Sum32() {
		return zlib.ErrChecksum
	}
	return io.EOF
}

// early is the error of data that end with err, where more must come.
func early(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
