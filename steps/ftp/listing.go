package ftp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// What a listing may hold. A server could go on for ever.
const (
	maxFiles        = 100_000  // that are asked for
	maxListingBytes = 64 << 20 // of all entries of all directories, those that are not asked for included
	maxEntryLine    = 16 << 10 // bytes of one entry
	maxDepth        = 32       // of directories below the one that is searched
)

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it; without MLSD only to the minute or day, and in the server's time zone as if that were UTC"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`

	below string // path below the directory that was searched
}

// A search says which files below a directory are wanted.
type search struct {
	pattern     string // of paths below the directory; empty means all in it
	directories bool   // too
	unsafe      string // one of the values of on_unsafe_name
}

// The values of on_unsafe_name.
const (
	unsafeSkip = "skip"
	unsafeFail = "fail"
)

func (q search) check() error {
	switch {
	case q.unsafe != unsafeSkip && q.unsafe != unsafeFail:
		return fmt.Errorf("on_unsafe_name: must be %q or %q, not %s", unsafeSkip, unsafeFail, safename.Quote(q.unsafe))
	case !doublestar.ValidatePattern(q.pattern):
		return fmt.Errorf("pattern: %s is malformed; known are *, **, ?, [a-z], [^a-z], {one,two} and \\ before a character that is meant itself", safename.Quote(q.pattern))
	case strings.HasPrefix(q.pattern, "/") || slices.Contains(strings.Split(q.pattern, "/"), ".."):
		return fmt.Errorf("pattern: %s leads out of remote_path, below which it is compared", safename.Quote(q.pattern))
	}
	return nil
}

func (q search) matches(below string) bool {
	return q.pattern == "" || doublestar.MatchUnvalidated(q.pattern, below)
}

// descends reports whether something in the directory below could match.
func (q search) descends(below string) bool {
	wanted := strings.Split(q.pattern, "/")
	for i, name := range strings.Split(below, "/") {
		switch {
		case strings.ContainsAny(q.pattern, "{[\\"):
			return strings.Contains(q.pattern, "/") || strings.Contains(q.pattern, "**")
		case i < len(wanted) && strings.Contains(wanted[i], "**"):
			return true
		}
		if i+1 >= len(wanted) || !doublestar.MatchUnvalidated(wanted[i], name) {
			return false
		}
	}
	return true
}

// An unsafeName is an entry that can't be used, and why.
type unsafeName struct {
	name   string
	reason error
}

// A finder collects the files that a search is for.
type finder struct {
	search
	s        *session
	job      *courier.Context
	files    []File
	refused  []unsafeName
	unparsed int // lines
	bytes    int
	top      string
}

// find lists what is wanted below the directory dir, in the order of the paths,
// and counts the entries that can't be used.
//
// Files that are still being uploaded by Courier don't exist yet, and are not
// listed. Links are followed, except to directories; those that lead nowhere
// are not listed, nor is what is neither a file nor a directory.
func (s *session) find(ctx context.Context, job *courier.Context, dir string, q search) ([]File, int, error) {
	f := finder{search: q, s: s, job: job, files: []File{}, top: dir}
	if err := f.walk(ctx, "", 0); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(f.files, func(a, b File) int { return cmp.Compare(a.below, b.below) })
	return f.files, len(f.refused) + f.unparsed, f.complain()
}

// walk lists the directory below, and those in it where they are wanted.
func (f *finder) walk(ctx context.Context, below string, depth int) error {
	dir := f.top
	if below != "" {
		dir = remote.Join(f.top, below)
	}
	fault := func(err error) error { return f.s.fault("list", dir, err) }
	if depth > maxDepth {
		return fault(courier.Permanent(fmt.Errorf("lies more than %d directories deep; narrow pattern", maxDepth)))
	}
	var found []entry
	seen := make(map[string]bool)
	unparsed, err := f.s.each(ctx, dir, true, func(e entry) error {
		if err := f.count(e, len(found)); err != nil {
			return err
		}
		if e.name == "." || e.name == ".." || remote.IsSideFile(e.name) {
			return nil
		}
		at := path.Join(below, e.name)
		if !f.matches(at) && !(e.isDir && f.descends(at)) {
			return nil
		}
		reason := safename.Check(e.name)
		if reason == nil && seen[e.name] {
			reason = errors.New("the name is listed twice")
		}
		if reason != nil {
			f.refused = append(f.refused, unsafeName{e.name, reason})
			return nil
		}
		seen[e.name] = true
		found = append(found, e)
		return nil
	})
	f.unparsed += unparsed
	if err != nil {
		return fault(err)
	}
	for _, e := range found {
		if err := f.add(ctx, below, e); err != nil {
			return fault(err)
		}
		if at := path.Join(below, e.name); e.isDir && f.descends(at) {
			if err := f.walk(ctx, at, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// count adds an entry to what the listing holds.
func (f *finder) count(e entry, here int) error {
	const overhead = 64
	if f.bytes += len(e.name) + overhead; f.bytes > maxListingBytes {
		return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB; narrow pattern, or have the directory tidied up", maxListingBytes>>20))
	}
	if here+len(f.files)+len(f.refused) > maxFiles {
		return courier.Permanent(fmt.Errorf("more than %d files; narrow pattern, or have the directory tidied up", maxFiles))
	}
	f.job.Progress(0, -1, f.top)
	return nil
}

// add takes an entry into the result if it is what is wanted.
func (f *finder) add(ctx context.Context, below string, e entry) error {
	at := path.Join(below, e.name)
	if !f.matches(at) || e.odd || e.isDir && !f.directories {
		return nil
	}
	file := File{Name: e.name, Path: remote.Join(f.top, at), Modified: e.modified, IsDirectory: e.isDir, below: at}
	n := e.node
	if e.link || !e.isDir && e.size < 0 {
		var err error
		if n, err = f.s.stat(ctx, file.Path); isReply(err) {
			return nil
		} else if err != nil {
			return err
		}
		if n.isDir && !f.directories {
			return nil
		}
		file.IsDirectory, file.Modified = n.isDir, n.modified
	}
	if !n.isDir {
		if file.Size = n.size; n.size < 0 {
			f.refused = append(f.refused, unsafeName{e.name, errors.New("the server doesn't tell its size")})
			return nil
		}
	}
	f.files = append(f.files, file)
	return nil
}

// complain reports entries that can't be used: it logs them, or fails.
func (f *finder) complain() error {
	if f.unparsed > 0 {
		f.refused = append(f.refused, unsafeName{"", fmt.Errorf("%d lines of the listing are in no form that is known; the server offers no MLSD, or it is turned off", f.unparsed)})
	}
	if len(f.refused) == 0 {
		return nil
	}
	const few = 10
	if f.unsafe == unsafeFail {
		first := f.refused[0]
		return f.s.fault("list", f.top, courier.Permanent(fmt.Errorf("%d entries can't be used, the first is %s: %w; have it renamed, or set on_unsafe_name to %q",
			len(f.refused), safename.Quote(first.name), first.reason, unsafeSkip)))
	}
	log := f.job.Log().With("connection", f.s.id, "directory", safename.Quote(f.top))
	for _, u := range f.refused[:min(few, len(f.refused))] {
		log.Warn("an entry of the server is skipped", "name", safename.Quote(u.name), "reason", u.reason.Error())
	}
	if more := len(f.refused) - few; more > 0 {
		log.Warn("more entries of the server are skipped", "count", more)
	}
	return nil
}

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
	err = s.transfer(ctx, verb, argument, 0, false, func(conn net.Conn) error {
		limit := &io.LimitedReader{R: source{conn}, N: maxListingBytes + 1}
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
			return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB; have the directory tidied up", maxListingBytes>>20))
		}
		return nil
	})
	if r, ok := err.(*replyError); ok && (r.code == 450 || r.code == 550) && strings.Contains(strings.ToLower(r.text), "no files") {
		return unknown, nil // that is how some say that a directory is empty
	}
	return unknown, err
}
