package files

import (
	"archive/zip"
	"bufio"
	"compress/flate"
	"io"
	"net/http"
	"time"

	"github.com/courierhq/courier/depot"
)

// SendZip writes an archive as the body of an answer. Next returns the files, and [io.EOF] after
// the last one. SendZip closes each file.
func SendZip(w http.ResponseWriter, patience time.Duration, next func() (depot.Object, error)) error {
	out := bufio.NewWriterSize(newPatient(w, patience), blockSize)
	z, err := newZip(out)
	if err != nil {
		return err
	}
	for {
		o, err := next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = z.add(o)
		}
		if err != nil {
			return err
		}
	}
	if err := z.w.Close(); err != nil {
		return err
	}
	return out.Flush()
}

// A zipWriter writes an archive as a stream. All entries have the method deflate, whose data marks
// its own end, so that programs can unpack the stream while it arrives. If compression saves
// nothing, the blocks are stored.
type zipWriter struct {
	w       *zip.Writer
	packers map[int]*flate.Writer // by level
	sampler *flate.Writer         // the others are in use until the next entry begins
	level   int                   // of the next entry
	block   []byte
}

func newZip(w io.Writer) (*zipWriter, error) {
	z := &zipWriter{w: zip.NewWriter(w), packers: make(map[int]*flate.Writer), block: make([]byte, blockSize)}
	z.w.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return z.packer(w) })
	var err error
	z.sampler, err = flate.NewWriter(io.Discard, flate.BestSpeed)
	return z, err
}

// packer returns the compressor of the next entry; there is one for each level.
func (z *zipWriter) packer(w io.Writer) (*flate.Writer, error) {
	if p := z.packers[z.level]; p != nil {
		p.Reset(w)
		return p, nil
	}
	p, err := flate.NewWriter(w, z.level)
	z.packers[z.level] = p
	return p, err
}

// add adds a file, and closes it.
func (z *zipWriter) add(o depot.Object) error {
	defer o.Close()
	info := o.Info()
	_, name := depot.SplitKey(info.Key)
	n, err := fill(o, z.block)
	if err != nil && err != io.EOF {
		return err
	}
	if z.level, err = z.levelFor(z.block[:n]); err != nil {
		return err
	}
	w, err := z.w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: info.Time})
	if err != nil {
		return err
	}
	for n > 0 {
		if _, err := w.Write(z.block[:n]); err != nil {
			return err
		}
		if n, err = fill(o, z.block); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// sampleSize is how many bytes of a file are compressed to see whether compression saves space.
const sampleSize = 8 << 10

// levelFor returns the level for a file, by its beginning.
func (z *zipWriter) levelFor(head []byte) (int, error) {
	sample := head[:min(len(head), sampleSize)]
	var packed counter
	z.sampler.Reset(&packed)
	_, err := z.sampler.Write(sample)
	if err == nil {
		err = z.sampler.Close()
	}
	if int(packed) > len(sample)*15/16 {
		return flate.NoCompression, err
	}
	return flate.BestSpeed, err
}

// A counter counts the bytes that are written.
type counter int

// Write implements [io.Writer].
func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
