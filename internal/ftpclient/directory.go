package ftpclient

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/connerr"
	"github.com/courierhq/courier/internal/failure"
)

// maxEntryLine is the maximum number of bytes of an entry of a listing. A
// server could send bytes for ever.
const maxEntryLine = 16 << 10

// List calls f with every entry of a directory, as the server sends it, and
// returns the number of lines in an unknown format. If hidden is set, hidden
// files of Unix are included if the server supports that.
func (s *Conn) List(ctx context.Context, dir string, hidden bool, f func(Entry) error) (unparsed int, err error) {
	if dir == "." {
		dir = ""
	}
	if s.has("MLST") && !s.c.DisableMLSD {
		unparsed, err = s.lines(ctx, "MLSD", dir, func(text string) (bool, error) {
			e, ok := parseMLSD(text)
			if !ok || e.Name == "" {
				return ok, nil
			}
			return true, f(e)
		})
		if err == nil || !unsupported(err) {
			return unparsed, missing(err)
		}
	}
	// The directory may be a pattern or an option to LIST, but is a path to CWD.
	if dir != "" {
		if err := s.enter(ctx, dir); err != nil {
			return 0, err
		}
	}
	unparsed, err = s.listHere(ctx, hidden, f)
	if dir != "" && s.Cause() == nil {
		if e := s.leave(ctx); err == nil {
			err = e
		}
	}
	return unparsed, err
}

// The values of session.hidden.
const (
	showAll  = "-a"
	showSome = "none" // there is no such argument
)

// listHere lists the current directory with LIST.
func (s *Conn) listHere(ctx context.Context, hidden bool, f func(Entry) error) (int, error) {
	now := time.Now()
	each := func(text string) (bool, error) {
		if strings.HasPrefix(text, "total ") {
			return true, nil
		}
		e, ok := parseLIST(text, now)
		if !ok {
			return false, nil
		}
		return true, f(e)
	}
	if hidden && s.hidden == "" {
		// A server that knows the argument lists the directory itself too. One
		// that doesn't may look for a file of that name.
		found := 0
		_, err := s.lines(ctx, "LIST", showAll, func(text string) (bool, error) {
			if e, ok := parseLIST(text, now); ok && e.Name == "." {
				found++
			}
			return true, nil
		})
		if err != nil && !IsReply(err) {
			return 0, err
		}
		if s.hidden = showSome; found == 1 {
			s.hidden = showAll
		}
	}
	argument := ""
	if hidden && s.hidden == showAll {
		argument = showAll
	}
	return s.lines(ctx, "LIST", argument, each)
}

// lines calls f with each line of a listing, and counts the lines in an unknown
// format.
func (s *Conn) lines(ctx context.Context, verb, argument string, f func(string) (bool, error)) (unknown int, err error) {
	ctx, moved, end := s.guard(ctx)
	defer end()
	err = s.transfer(ctx, verb, argument, 0, false, func(conn net.Conn) error {
		limit := &io.LimitedReader{R: &watched{ctx: ctx, r: source{conn}, moved: moved}, N: int64(s.c.MaxListing) + 1}
		in := bufio.NewScanner(limit)
		in.Buffer(make([]byte, 0, 4096), maxEntryLine)
		for in.Scan() {
			if len(in.Bytes()) == 0 {
				continue
			}
			known, err := f(in.Text())
			if err != nil {
				return err
			}
			if !known {
				unknown++
			}
		}
		switch err := in.Err(); {
		case errors.Is(err, bufio.ErrTooLong):
			return failure.Permanent(broken("an entry of a listing is longer than %d KiB", maxEntryLine>>10))
		case err != nil:
			return err
		case limit.N == 0:
			return failure.Permanent(fmt.Errorf("the listing is longer than %d MiB; clean up the directory", s.c.MaxListing>>20))
		}
		return nil
	})
	if r, ok := err.(*ReplyError); ok && (r.Code == 450 || r.Code == 550) && strings.Contains(strings.ToLower(r.text), "no files") {
		return unknown, nil // that is how some say that a directory is empty
	}
	return unknown, err
}

// guard starts the guard of a listing.
func (s *Conn) guard(ctx context.Context) (guarded context.Context, moved func(int64), end func()) {
	if s.c.Guard == nil {
		return ctx, func(int64) {}, func() {}
	}
	return s.c.Guard(ctx)
}

// A watched reader reports how many bytes it has read. It ends with ctx.
type watched struct {
	ctx   context.Context
	r     io.Reader
	moved func(int64)
	done  int64
}

// Read reads. After ctx has ended, it returns the cause.
func (r *watched) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.r.Read(p)
	if r.done += int64(n); n > 0 {
		r.moved(r.done)
	}
	if err != io.EOF {
		err = connerr.Ended(r.ctx, err)
	}
	return n, err
}
