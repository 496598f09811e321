package sftpclient

import (
	"context"
	"io"
	"time"

	"github.com/courierhq/courier/internal/bandwidth"
	"github.com/courierhq/courier/internal/connerr"
)

// WindowBytes is the maximum number of bytes of file data in flight for one transfer, which is
// most of a transfer's memory. It exceeds the 2 MiB that an SSH channel transfers in one round
// trip, so that the channel is never idle for lack of requests.
//
// With several channels, channelBytes are in flight on each.
const (
	WindowBytes  = 4 << 20
	channelBytes = 5 << 19
)

// Errors of transfers whose file has changed meanwhile, which match [connerr.ErrChanged]. Another
// attempt may succeed.
var (
	ErrShrank error = changedError("the file ends before its size is reached; it was changed during the transfer")
	ErrGrew   error = changedError("the file goes on after its size; it was changed during the transfer")
)

type changedError string

func (e changedError) Error() string        { return string(e) }
func (e changedError) Is(target error) bool { return target == connerr.ErrChanged }

// A Reading reads a remote file to its end, with many requests in flight, and writes the content
// in order.
type Reading struct {
	*Workers             // the file, open on one or more channels
	Size     int64       // which the file must have
	To       io.Writer   // gets size bytes, unless there is an error
	Progress func(int64) // told how many bytes to has got
	Limit    *bandwidth.Limiter
	open     bool // the file may go on after size
	refused  bool // to has failed

	chunk   int      // bytes to ask for at once
	turn    int      // of the workers
	Asked   int64    // all before is asked for; begins where reading does
	probing bool     // the end is asked for
	Wrote   int64    // all before is written; begins as asked
	pieces  []*piece // that are asked for, in order
	spare   [][]byte // buffers to use again
}

// A piece is a requested part of the file. The empty piece after the end checks that no more data
// follows.
type piece struct {
	*call
	file *File
	off  int64
	buf  []byte // of the length that is wanted
}

// Run reads the file. The caller closes the workers.
func (r *Reading) Run(ctx context.Context) error {
	err := r.loop(ctx)
	if err != nil && !r.refused {
		r.salvage()
	}
	return err
}

func (r *Reading) loop(ctx context.Context) error {
	r.chunk = r.Limit.Chunk(r.Files[0].ReadChunk)
	for {
		for r.roomForMore() {
			p := r.nextPiece()
			if err := r.Limit.Wait(ctx, len(p.buf)); err != nil {
				r.pieces = r.pieces[:len(r.pieces)-1]
				return err
			}
			if err := r.ask(ctx, p); err != nil {
				r.pieces = r.pieces[:len(r.pieces)-1]
				return err
			}
			if r.Limit != nil {
				break // what has come meanwhile doesn't wait
			}
		}
		if len(r.pieces) == 0 {
			return nil
		}
		if err := r.settleFirst(ctx); err != nil {
			return err
		}
	}
}

// drainTime is the time limit for processing the answers that arrived before a connection ended.
const drainTime = 500 * time.Millisecond

// salvage writes the data that has arrived although the transfer has failed, so that it need not
// be requested again.
func (r *Reading) salvage() {
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, p := range r.pieces {
		if p.file.Cause() != nil {
			select {
			case <-p.done:
			case <-limit.C:
				return
			}
		}
		select {
		case <-p.done:
		default:
			return
		}
		if n := min(p.n, len(p.buf)); n == 0 {
			return
		} else if written, err := r.To.Write(p.buf[:n]); err != nil || written < n || n < len(p.buf) {
			return
		}
	}
}

func (r *Reading) roomForMore() bool {
	return !r.probing && !(r.open && r.Asked == r.Size) && (len(r.pieces) == 0 || r.Asked-r.Wrote+int64(r.chunk) <= r.window())
}

func (r *Reading) nextPiece() *piece {
	want := int(min(int64(r.chunk), r.Size-r.Asked))
	p := &piece{file: r.next(r.turn), off: r.Asked}
	r.turn++
	if n := len(r.spare); n > 0 && cap(r.spare[n-1]) >= want {
		p.buf, r.spare = r.spare[n-1][:want], r.spare[:n-1]
	} else {
		p.buf = make([]byte, want)
	}
	r.probing = want == 0
	r.Asked += int64(want)
	r.pieces = append(r.pieces, p)
	return p
}

// ask sends the request for p.
func (r *Reading) ask(ctx context.Context, p *piece) (err error) {
	into := p.buf
	if len(into) == 0 {
		into = make([]byte, 1)
	}
	p.call, err = p.file.read(ctx, into, p.off)
	return err
}

// settleFirst waits for the first piece, and writes it.
func (r *Reading) settleFirst(ctx context.Context) error {
	p := r.pieces[0]
	for done := false; !done; {
		select {
		case <-p.done:
			done = true
		case <-p.moved:
			if got := p.file.gotOf(p.call); len(p.buf) > 0 && got < len(p.buf) {
				r.Progress(r.Wrote + int64(got))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := r.settle(p, p.file.result(p.call)); err != nil {
		return err
	}
	r.pieces = r.pieces[1:]
	if len(p.buf) == 0 {
		return nil
	}
	if p.first < len(p.buf) {
		r.chunk = max(minChunk, min(r.chunk, p.first)) // the server doesn't send more at once
	}
	if _, err := r.To.Write(p.buf); err != nil {
		r.refused = true
		return err
	}
	r.Wrote += int64(len(p.buf))
	r.spare = append(r.spare, p.buf)
	r.Progress(r.Wrote)
	return nil
}

// settle returns the error of a piece whose reading has ended with err. The empty piece must
// contain no data, since it is the end of the file.
func (r *Reading) settle(p *piece, err error) error {
	s, refused := err.(*StatusError)
	switch {
	case err == nil && len(p.buf) == 0:
		return ErrGrew
	case err == nil:
		return nil
	case !refused:
		return err
	case len(p.buf) > 0 && s.Code == statusEOF:
		return ErrShrank
	case len(p.buf) > 0:
		return err
	case s.Code != statusEOF && r.Size == 0:
		// Nothing was ever read, so it isn't clear that the file can be.
		return err
	}
	return nil
}

// A Writing writes a remote file with many requests in flight.
type Writing struct {
	*Workers // the file, open on one or more channels
	Size     int64
	From     io.ReaderAt // has size bytes
	Progress func(int64) // told how many bytes the server has confirmed
	Limit    *bandwidth.Limiter

	data  []byte  // of each request in turn
	turn  int     // of the workers
	Sent  int64   // all before is sent; begins where writing does
	under []*sent // under way, in order
	Acked int64   // all before is confirmed; begins as sent
}

// A sent is a piece of the file that has been sent.
type sent struct {
	*call
	file *File
	end  int64 // its offset
}

// Run writes the file. The caller closes the workers.
func (w *Writing) Run(ctx context.Context) error {
	for w.Acked < w.Size {
		for w.roomForMore() {
			if err := w.sendNext(ctx); err != nil {
				return err
			}
			if w.Limit != nil {
				break
			}
		}
		p := w.under[0]
		if err := p.file.wait(ctx, p.call); err != nil {
			return err
		}
		w.Acked, w.under = p.end, w.under[1:]
		w.Progress(w.Acked)
	}
	return nil
}

func (w *Writing) roomForMore() bool {
	ahead := w.Sent - w.Acked + int64(w.Files[0].WriteChunk)
	return w.Sent < w.Size && (len(w.under) == 0 || ahead <= w.window())
}

func (w *Writing) sendNext(ctx context.Context) error {
	l := w.next(w.turn)
	w.turn++
	n := int(min(int64(w.Limit.Chunk(l.WriteChunk)), w.Size-w.Sent))
	if err := w.Limit.Wait(ctx, n); err != nil {
		return err
	}
	if cap(w.data) < n {
		w.data = make([]byte, n)
	}
	data := w.data[:n]
	switch got, err := w.From.ReadAt(data, w.Sent); {
	case got == n:
	case err == io.EOF:
		return ErrShrank
	default:
		return err
	}
	cl, err := l.write(ctx, data, w.Sent)
	if err != nil {
		return err
	}
	w.Sent += int64(n)
	w.under = append(w.under, &sent{cl, l, w.Sent})
	return nil
}
