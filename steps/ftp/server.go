package ftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// account returns the connection called id, for the steps of package remote.
func account(job *courier.Context, c Connections, id string) remote.Account {
	return parallelAccount(job, c, id, 1)
}

// parallelAccount is account for a step that transfers up to width files at a time, each over a
// session of its own.
func parallelAccount(job *courier.Context, c Connections, id string, width int) remote.Account {
	return remote.Account{
		Job: job, Family: "ftp", ID: id, IsLost: isLost, CheckPath: checkPath,
		Use: func(ctx context.Context, f func(remote.Server) error) error {
			return use(ctx, job, c, id, func(s *session) error { return f(server{s}) })
		},
		Each: func(ctx context.Context, b remote.Batch) error {
			return parallel.Do(ctx, len(b.Sizes), width, func(ctx context.Context, i int) error {
				move := func() error {
					return more(ctx, job, c, id, func(s *session) error { return b.Move(ctx, server{s}, i) })
				}
				if !b.Resumes(i) {
					return move()
				}
				return remote.Reconnecting(ctx, job, id, isLost, move)
			})
		},
		Test: func(ctx context.Context, s remote.Server) error { return s.(server).test(ctx, job) },
	}
}

// A server is a session as package remote uses it. It must be used by one goroutine at a time.
type server struct{ *session }

var _ remote.Server = server{}

// Traits returns the traits of FTP. Most servers replace an existing file on rename without an
// explicit request.
func (s server) Traits() remote.Traits {
	return remote.Traits{Overwrites: true, OneLine: true, Requests: 1, Addr: s.addr, Limits: s.limits}
}

// Fault returns err with the connection, the operation and the path.
func (s server) Fault(op, path string, err error) error { return s.fault(op, path, err) }

// Refused reports whether err is a reply of the server, or says that the server lacks a command.
func (s server) Refused(err error) bool {
	return ftpclient.IsReply(err) || errors.Is(err, ftpclient.ErrNoMFMT)
}

// Missing reports whether err is a reply that can only mean a missing file.
func (s server) Missing(err error) bool { return ftpclient.IsMissing(err) }

// Again calls f with the session, which is opened again.
func (s server) Again(ctx context.Context, f func(remote.Server) error) error {
	if err := s.Reconnect(ctx); err != nil {
		return err
	}
	return f(s)
}

// Stat asks for one path.
func (s server) Stat(ctx context.Context, path string) (remote.Info, error) {
	n, err := s.Conn.Stat(ctx, path)
	i := remote.Info{Size: n.Size, Modified: n.Modified, Kind: remote.KindFile}
	if n.IsDir {
		i.Kind = remote.KindDirectory
	}
	return i, err
}

// Lstat is Stat: FTP cannot describe a link.
func (s server) Lstat(ctx context.Context, path string) (remote.Info, error) {
	return s.Stat(ctx, path)
}

// CheckDirectory lists the directory, since that also tests data connections.
func (s server) CheckDirectory(ctx context.Context, dir string) error {
	_, err := s.Conn.List(ctx, dir, false, func(ftpclient.Entry) error { return nil })
	return s.fault("list", dir, err)
}

// CheckFile does nothing: FTP has no command for it.
func (s server) CheckFile(context.Context, string) error { return nil }

// List calls f with each entry of a directory, including hidden files of Unix.
func (s server) List(ctx context.Context, dir string, f func(remote.Entry) error) (int, error) {
	return s.Conn.List(ctx, dir, true, func(e ftpclient.Entry) error {
		return f(remote.Entry{Name: e.Name, Size: e.Size, Modified: e.Modified, IsDir: e.IsDir, Odd: e.Odd, Link: e.Link, Ask: e.Link || !e.IsDir && !e.Odd && e.Size < 0})
	})
}

// Resolve asks for the targets of links, and for sizes that are missing in the listing.
func (s server) Resolve(ctx context.Context, _ string, entries []remote.Entry) error {
	for i := range entries {
		e := &entries[i]
		if !e.Ask {
			continue
		}
		n, err := s.Conn.Stat(ctx, e.Path)
		switch {
		case ftpclient.IsReply(err):
			e.Odd = true
		case err != nil:
			return err
		case !n.IsDir && n.Size < 0:
			e.Unusable = errors.New("the server doesn't report its size")
		}
		e.Size, e.Modified, e.IsDir = n.Size, n.Modified, n.IsDir
	}
	return nil
}

// Rename renames. An existing file with the new name may be replaced.
func (s server) Rename(ctx context.Context, from, to string, _ bool) (gone bool, err error) {
	return false, s.Conn.Rename(ctx, from, to)
}

// Preserve sets the time; FTP has no modes.
func (s server) Preserve(ctx context.Context, path string, local fs.FileInfo, times, _ bool) error {
	if !times {
		return nil
	}
	return s.SetTime(ctx, path, local.ModTime())
}

// Retrieve reads the content after r.From, and then checks the file again.
func (s server) Retrieve(ctx context.Context, r remote.Retrieval) error {
	size, got := r.Before.Size, int64(0)
	if r.From < size || r.From == 0 {
		err := s.Conn.Retrieve(ctx, r.Path, r.From, func(content io.Reader) error {
			limited := &io.LimitedReader{R: r.Limit.Reader(ctx, content), N: min(size-r.From, math.MaxInt64-1) + 1}
			var err error
			got, err = transfer.Copy(ctx, r.To, limited, func(done int64) { r.At(r.From + done) })
			if err == nil && got > size-r.From {
				err = fmt.Errorf("the server sends more than the %d bytes that it says the file has: %w", size, connerr.ErrChanged)
			}
			return err
		})
		if _, refused := errors.AsType[*ftpclient.RestartError](err); refused {
			return remote.ErrNoResume
		} else if err != nil {
			return err
		}
		if got != size-r.From {
			return fmt.Errorf("the server has sent %d bytes of %d, and confirms that this is all", r.From+got, size)
		}
	}
	after, err := s.Stat(ctx, r.Path)
	return remote.HeldStill(r.Before, after, err)
}

// RetrieveSmall does nothing: with FTP a small file takes as many round trips as a large one.
func (s server) RetrieveSmall(context.Context, string, int64, func(remote.Info, []byte)) (bool, error) {
	return false, nil
}

// Store sends the content after w.From, and compares the sizes.
func (s server) Store(ctx context.Context, w remote.Storing) (acked int64, err error) {
	if w.From < w.Size || w.From == 0 {
		content := w.Limit.Reader(ctx, io.NewSectionReader(w.Content, w.From, w.Size-w.From))
		taken := false
		err := s.Conn.Store(ctx, w.Path, w.From > 0, func(to io.Writer) error {
			taken = true
			_, err := transfer.Copy(ctx, to, content, func(done int64) { w.Meter.At(w.From + done) })
			return err
		})
		if err != nil {
			err = s.explainRefusal(ctx, w.Path, err)
			if w.From > 0 && !taken && s.Cause() == nil && ftpclient.IsReply(err) && !courier.IsPermanent(err) {
				err = fmt.Errorf("%w: %w", remote.ErrNoResume, err)
			}
			return 0, err
		}
	}
	return w.Size, w.Meter.While(func() error {
		n, err := s.Conn.Stat(ctx, w.Path)
		if err != nil {
			return fmt.Errorf("the size of what was written: %w", err)
		}
		if n.Size != w.Size {
			return otherSize{n.Size, w.Size}
		}
		return nil
	})
}

// otherSize is the error of a file whose size on the server is not the size that was sent.
type otherSize struct{ got, want int64 }

// Error states both sizes.
func (e otherSize) Error() string {
	return fmt.Sprintf("the server has %d bytes of %d, although it confirmed all of them", e.got, e.want)
}

// Is reports whether target is [remote.ErrOtherContent].
func (e otherSize) Is(target error) bool { return target == remote.ErrOtherContent }

// explainRefusal says whether the directory of a file exists.
func (s server) explainRefusal(ctx context.Context, path string, err error) error {
	dir, _ := remote.Split(path)
	if !ftpclient.IsReply(err) || s.Cause() != nil || dir == "." || dir == "/" {
		return err
	}
	if there, e := s.IsDirectory(ctx, dir); e == nil && !there {
		return courier.Permanent(fmt.Errorf("the remote directory %s doesn't exist, or is not accessible; create it, or correct remote_path: %w", safename.Quote(dir), err))
	}
	return err
}

// ResumeAt returns the size of the file on the server. Store compares the sizes.
func (s server) ResumeAt(ctx context.Context, w remote.Storing, _ int64) (int64, error) {
	n, err := s.Conn.Stat(ctx, w.Path)
	switch {
	case err == nil && !n.IsDir && n.Size >= 0 && n.Size <= w.Size:
		return n.Size, nil
	case err != nil && !ftpclient.IsReply(err) && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	return 0, nil
}

// Same reads the file and compares it. A difference ends the transfer early; the session is then
// opened again.
func (s server) Same(ctx context.Context, path string, local io.ReaderAt, size int64, compared func(int64)) (bool, error) {
	c := &comparer{local: local}
	err := s.Conn.Retrieve(ctx, path, 0, func(content io.Reader) error {
		_, err := transfer.Copy(ctx, c, content, compared)
		return err
	})
	switch {
	case err == nil:
		return c.off == size, nil
	case errors.Is(err, errDifferent) && ctx.Err() == nil:
		return false, s.Reconnect(ctx)
	case ftpclient.IsReply(err):
		return false, nil
	}
	return false, err
}

// errDifferent ends a comparison.
var errDifferent = errors.New("the contents differ")

// A comparer accepts only the content of local.
type comparer struct {
	local io.ReaderAt
	off   int64
	buf   []byte
}

// Write fails with errDifferent at the first difference.
func (c *comparer) Write(p []byte) (int, error) {
	if cap(c.buf) < len(p) {
		c.buf = make([]byte, len(p))
	}
	buf := c.buf[:len(p)]
	n, err := c.local.ReadAt(buf, c.off)
	if n < len(p) && err != io.EOF {
		return 0, err
	}
	if string(buf[:n]) != string(p) {
		return 0, errDifferent
	}
	c.off += int64(len(p))
	return len(p), nil
}
