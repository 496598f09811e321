package sftp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/courierhq/courier/internal/bandwidth"
)

// windowBytes is how much file data of one transfer is under way at most, and
// with it most of a transfer's memory. It exceeds the 2 MiB that an SSH channel
// lets through in one round trip, so that the channel never idles for lack of
// requests.
//
// Of a transfer over several channels, laneBytes are under way on each.
const (
	windowBytes = 4 << 20
	laneBytes   = 5 << 19
)

// Errors of transfers whose file did not hold still. Another attempt may find
// that it does.
var (
	errShrank = errors.New("the file ends before its size is reached; it was changed during the transfer")
	errGrew   = errors.New("the file goes on after its size; it was changed during the transfer")
)

// A reading reads a remote file to its end, with many requests under way, and
// writes it in order.
type reading struct {
	*crew                // the file, open on one or more channels
	size     int64       // which the file must have
	to       io.Writer   // gets size bytes, unless there is an error
	progress func(int64) // told how many bytes to has got
	limit    *bandwidth.Limiter
	open     bool // the file may go on after size
	refused  bool // to has failed

	chunk   int      // bytes to ask for at once
	turn    int      // of lanes
	asked   int64    // all before is asked for; begins where reading does
	probing bool     // the end is asked for
	wrote   int64    // all before is written; begins as asked
	pieces  []*piece // that are asked for, in order
	spare   [][]byte // buffers to use again
}

// A piece is a part of the file that was asked for. The empty piece behind the
// end makes sure that there is nothing.
type piece struct {
	*call
	lane lane
	off  int64
	buf  []byte // of the length that is wanted
	n    int    // bytes that are there
}

func (r *reading) run(ctx context.Context) error {
	err := r.loop(ctx)
	if err != nil && !r.refused {
		r.salvage()
	}
	return err
}

func (r *reading) loop(ctx context.Context) error {
	r.chunk = r.limit.Chunk(r.lanes[0].readChunk)
	for {
		for r.roomForMore() {
			p := r.nextPiece()
			if err := r.limit.Wait(ctx, len(p.buf)); err != nil {
				r.pieces = r.pieces[:len(r.pieces)-1]
				return err
			}
			if err := r.ask(p); err != nil {
				r.pieces = r.pieces[:len(r.pieces)-1]
				return err
			}
			if r.limit != nil {
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

// drainTime is how long it may take, when a connection has ended, to deal with
// the answers that have come before.
const drainTime = 500 * time.Millisecond

// salvage writes what has come although the transfer has failed, so that nobody
// has to ask for it again.
func (r *reading) salvage() {
	limit := time.NewTimer(drainTime)
	defer limit.Stop()
	for _, p := range r.pieces {
		if p.lane.cause() != nil {
			select {
			case <-p.lane.drained:
			case <-limit.C:
				return
			}
		}
		select {
		case a := <-p.answer:
			if a.typ == fxpData {
				p.n += a.n
			}
		default:
		}
		if p.n == 0 {
			return
		}
		if n, err := r.to.Write(p.buf[:min(p.n, len(p.buf))]); err != nil || n < len(p.buf) {
			return
		}
	}
}

func (r *reading) roomForMore() bool {
	return !r.probing && !(r.open && r.asked == r.size) && (len(r.pieces) == 0 || r.asked-r.wrote+int64(r.chunk) <= r.window())
}

func (r *reading) nextPiece() *piece {
	want := int(min(int64(r.chunk), r.size-r.asked))
	p := &piece{lane: r.next(r.turn), off: r.asked}
	r.turn++
	if n := len(r.spare); n > 0 && cap(r.spare[n-1]) >= want {
		p.buf, r.spare = r.spare[n-1][:want], r.spare[:n-1]
	} else {
		p.buf = make([]byte, want)
	}
	r.probing = want == 0
	r.asked += int64(want)
	r.pieces = append(r.pieces, p)
	return p
}

// ask sends the request for what p still lacks.
func (r *reading) ask(p *piece) error {
	into := p.buf[p.n:]
	if len(p.buf) == 0 {
		into = make([]byte, 1)
	}
	p.call = newCall(into)
	return p.lane.send(readPacket(p.lane.handle, p.off+int64(p.n), len(into)), p.call)
}

// settleFirst waits for the answer about the first piece, and writes it if
// nothing of it is missing.
func (r *reading) settleFirst(ctx context.Context) error {
	p := r.pieces[0]
	a, err := p.lane.wait(ctx, p.call)
	switch {
	case err != nil:
		return err
	case a.typ == fxpStatus:
		return r.settleStatus(p, a)
	case a.typ != fxpData:
		return p.unexpected(a)
	case len(p.buf) == 0:
		return errGrew
	}
	if p.n += a.n; p.n < len(p.buf) {
		r.chunk = max(minChunk, min(r.chunk, a.n)) // the server doesn't send more at once
		r.progress(r.wrote + int64(p.n))
		return r.ask(p)
	}
	if _, err := r.to.Write(p.buf); err != nil {
		r.refused = true
		return err
	}
	r.wrote += int64(len(p.buf))
	r.pieces = r.pieces[1:]
	r.spare = append(r.spare, p.buf)
	r.progress(r.wrote)
	return nil
}

func (p *piece) unexpected(a answer) error {
	return p.lane.broken(fmt.Sprintf("it answers a read request with a packet of type %d", a.typ))
}

// settleStatus handles what is the end of the file in the right case.
func (r *reading) settleStatus(p *piece, a answer) error {
	err := a.status()
	s, ok := err.(*statusError)
	switch {
	case err == nil:
		return p.lane.broken("it reports success for a read request without the data")
	case !ok:
		return err
	case len(p.buf) > 0 && s.code == statusEOF:
		return errShrank
	case len(p.buf) > 0:
		return err
	case s.code != statusEOF && r.size == 0:
		// Nothing was ever read, so it isn't clear that the file can be.
		return err
	}
	r.pieces = r.pieces[1:]
	return nil
}

// A writing writes a remote file with many requests under way.
type writing struct {
	*crew    // the file, open on one or more channels
	size     int64
	from     io.ReaderAt // has size bytes
	progress func(int64) // told how many bytes the server has confirmed
	limit    *bandwidth.Limiter

	packet packet  // built anew for each request
	turn   int     // of lanes
	sent   int64   // all before is sent; begins where writing does
	under  []*part // under way, in order
	acked  int64   // all before is confirmed; begins as sent
}

// A part is a piece of the file that was sent.
type part struct {
	*call
	lane lane
	end  int64 // its offset
}

func (w *writing) run(ctx context.Context) error {
	for w.acked < w.size {
		for w.roomForMore() {
			if err := w.sendNext(ctx); err != nil {
				return err
			}
			if w.limit != nil {
				break
			}
		}
		p := w.under[0]
		a, err := p.lane.wait(ctx, p.call)
		switch {
		case err != nil:
			return err
		case a.typ != fxpStatus:
			return p.lane.broken(fmt.Sprintf("it answers a write request with a packet of type %d", a.typ))
		}
		if err := a.status(); err != nil {
			return err
		}
		w.acked, w.under = p.end, w.under[1:]
		w.progress(w.acked)
	}
	return nil
}

func (w *writing) roomForMore() bool {
	ahead := w.sent - w.acked + int64(w.lanes[0].writeChunk)
	return w.sent < w.size && (len(w.under) == 0 || ahead <= w.window())
}

func (w *writing) sendNext(ctx context.Context) error {
	l := w.next(w.turn)
	w.turn++
	n := int(min(int64(w.limit.Chunk(l.writeChunk)), w.size-w.sent))
	if err := w.limit.Wait(ctx, n); err != nil {
		return err
	}
	if w.packet == nil {
		w.packet = newPacket(fxpWrite, len(l.handle)+16+n)
	}
	p := w.packet[:9].string(l.handle).uint64(uint64(w.sent)).uint32(uint32(n))
	head := len(p)
	p = append(p, make([]byte, n)...)
	switch got, err := w.from.ReadAt(p[head:], w.sent); {
	case got == n:
	case err == io.EOF:
		return errShrank
	default:
		return err
	}
	w.packet = p
	w.sent += int64(n)
	sent := &part{newCall(nil), l, w.sent}
	w.under = append(w.under, sent)
	return l.send(p, sent.call)
}
