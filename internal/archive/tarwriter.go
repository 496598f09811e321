package archive

import (
	"archive/tar"
	"context"
	"io"
	"time"
)

// Tar writes a tar archive of the items, in their order, compressed in the format f. Times are
// truncated to whole seconds, permissions are the same for all files, and there are no owners.
func (a *Writer) Tar(ctx context.Context, items []Item, f Compression) error {
	return a.through(f, func(w io.Writer) error { return a.tar(ctx, w, items) })
}

func (a *Writer) tar(ctx context.Context, w io.Writer, items []Item) error {
	tw := tar.NewWriter(w)
	for _, it := range items {
		if err := a.tarEntry(ctx, tw, it); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return tw.Close()
}

func (a *Writer) tarEntry(ctx context.Context, tw *tar.Writer, it Item) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: it.Name, Mode: 0o644, ModTime: tarTime(it.Info.ModTime())}
	if it.Info.IsDir() {
		h.Typeflag, h.Mode = tar.TypeDir, 0o755
		return tw.WriteHeader(h)
	}
	f, from, err := it.Open()
	if err != nil {
		return err
	}
	defer f.Close()
	h.ModTime, h.Size = tarTime(from.ModTime()), from.Size()
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	return a.add(ctx, f, from, it.Path, fitting{tw})
}

// A fitting accepts one byte too many without an error, so that the error can say that the source
// has grown.
type fitting struct{ tw *tar.Writer }

func (f fitting) Write(p []byte) (int, error) {
	n, err := f.tw.Write(p)
	if err == tar.ErrWriteTooLong {
		return len(p), nil
	}
	return n, err
}

// tarTime returns a time in the range of all archive formats.
func tarTime(t time.Time) time.Time {
	const last = 1<<33 - 1
	return time.Unix(min(max(0, t.Unix()), last), 0)
}
