package ftp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/transfer"
)

// maxEntryLine is how many bytes one entry of a listing may have. A server could
// go on for ever.
const maxEntryLine = 16 << 10

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it; without MLSD only to the minute or day, and in the server's time zone as if that were UTC"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// asFiles gives entries the form in which they are put out.
func asFiles(entries []remote.Entry) []File {
	files := make([]File, len(entries))
	for i, e := range entries {
		files[i] = File{e.Name, e.Path, e.Size, e.Modified, e.IsDir}
	}
	return files
}

// A lister lists directories on a session.
type lister struct{ *session }

var _ remote.Lister = lister{}

func (l lister) List(ctx context.Context, dir string, f func(remote.Entry) error) (int, error) {
	return l.each(ctx, dir, true, func(e entry) error {
		return f(remote.Entry{Name: e.name, Size: e.size, Modified: e.modified, IsDir: e.isDir, Odd: e.odd, Link: e.link, Ask: e.link || !e.isDir && !e.odd && e.size < 0})
	})
}

func (l lister) Resolve(ctx context.Context, _ string, entries []remote.Entry) error {
	for i := range entries {
		e := &entries[i]
		if !e.Ask {
			continue
		}
		n, err := l.stat(ctx, e.Path)
		switch {
		case isReply(err):
			e.Odd = true
		case err != nil:
			return err
		case !n.isDir && n.size < 0:
			e.Unusable = errors.New("the server doesn't tell its size")
		}
		e.Size, e.Modified, e.IsDir = n.size, n.modified, n.isDir
	}
	return nil
}

func (l lister) Fault(dir string, err error) error { return l.fault("list", dir, err) }

// each calls f with every entry of a directory, as the server sends it, and
// returns how many lines are in no form that is known. If hidden is set, files
// that Unix hides are included where the server can be asked for that.
func (s *session) each(ctx context.Context, dir string, hidden bool, f func(entry) error) (unparsed int, err error) {
	if dir == "." {
		dir = ""
	}
	if s.has("MLST") && !s.c.DisableMLSD {
		unparsed, err = s.lines(ctx, "MLSD", dir, func(text string) (bool, error) {
			e, ok := parseMLSD(text)
			if !ok || e.name == "" {
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
	if dir != "" && s.cause() == nil {
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

// listHere lists the current directory by LIST.
func (s *session) listHere(ctx context.Context, hidden bool, f func(entry) error) (int, error) {
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
			if e, ok := parseLIST(text, now); ok && e.name == "." {
				found++
			}
			return true, nil
		})
		if err != nil && !isReply(err) {
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

// lines calls f with each line of a listing, and counts those that it doesn't
// know.
func (s *session) lines(ctx context.Context, verb, argument string, f func(string) (bool, error)) (unknown int, err error) {
	ctx, guard := s.c.limits().Listing().Guard(ctx)
	defer guard.End()
	err = s.transfer(ctx, verb, argument, 0, false, func(conn net.Conn) error {
		limit := &io.LimitedReader{R: transfer.NewReader(ctx, source{conn}, guard.At), N: remote.MaxListingBytes + 1}
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
			return courier.Permanent(broken("an entry of a listing is longer than %d KiB", maxEntryLine>>10))
		case err != nil:
			return err
		case limit.N == 0:
			return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB; have the directory tidied up", remote.MaxListingBytes>>20))
		}
		return nil
	})
	if r, ok := err.(*replyError); ok && (r.code == 450 || r.code == 550) && strings.Contains(strings.ToLower(r.text), "no files") {
		return unknown, nil // that is how some say that a directory is empty
	}
	return unknown, err
}
