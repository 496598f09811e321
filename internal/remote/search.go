package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// What a search may find. A server could go on for ever.
const (
	MaxFiles        = 100_000  // that are asked for
	MaxListingBytes = 64 << 20 // of all entries of all directories, those that are not asked for included, and of the paths of those that are
	MaxDepth        = 32       // of directories below the one that is searched
)

// A Search says which files below a remote directory are wanted.
type Search struct {
	Pattern     string // of paths below the directory; empty means all in it
	Directories bool   // too
	Unsafe      string // one of the values of on_unsafe_name
	Links       bool   // links to files are files; otherwise they are not listed

	also func(name string) bool // files of these names too, where files that match could be
}

// The values of on_unsafe_name.
const (
	UnsafeSkip = "skip"
	UnsafeFail = "fail"
)

// Check reports what is wrong with q.
func (q Search) Check() error {
	switch {
	case q.Unsafe != UnsafeSkip && q.Unsafe != UnsafeFail:
		return fmt.Errorf("on_unsafe_name: must be %q or %q, not %s", UnsafeSkip, UnsafeFail, safename.Quote(q.Unsafe))
	case !doublestar.ValidatePattern(q.Pattern):
		return fmt.Errorf("pattern: %s is malformed; known are *, **, ?, [a-z], [^a-z], {one,two} and \\ before a character that is meant itself", safename.Quote(q.Pattern))
	case strings.HasPrefix(q.Pattern, "/") || slices.Contains(strings.Split(q.Pattern, "/"), ".."):
		return fmt.Errorf("pattern: %s leads out of remote_path, below which it is compared", safename.Quote(q.Pattern))
	}
	if err := safename.CheckPattern(q.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	return nil
}

// Matches reports whether Pattern matches a path below the directory. An empty
// one matches everything; that nothing but what is in the directory itself is
// found is up to Descends.
func (q Search) Matches(below string) bool {
	return q.Pattern == "" || doublestar.MatchUnvalidated(q.Pattern, below)
}

// Descends reports whether something in the directory below could match.
func (q Search) Descends(below string) bool {
	wanted := strings.Split(q.Pattern, "/")
	for i, name := range strings.Split(below, "/") {
		switch {
		case strings.ContainsAny(q.Pattern, "{[") || strings.Contains(q.Pattern, `\/`):
			return strings.Contains(q.Pattern, "/") || strings.Contains(q.Pattern, "**")
		case i < len(wanted) && strings.Contains(wanted[i], "**"):
			return true
		}
		if i+1 >= len(wanted) || !doublestar.MatchUnvalidated(wanted[i], name) {
			return false
		}
	}
	return true
}

// An Entry is what a server tells of a file or directory in a listing.
type Entry struct {
	Name     string // within its directory
	Size     int64  // bytes; nothing that counts for a directory
	Modified time.Time
	IsDir    bool
	Regular  bool  // the server says that it is a regular file
	Link     bool  // the server says that it is a link
	Ask      bool  // what it is must be asked for: it is a link, or its size is not told
	Odd      bool  // it is neither a file nor a directory, or leads nowhere
	Unusable error // why it can't be used although its name can

	Path  string // remote path; set by Find
	Below string // path below the directory that was searched; set by Find
}

// A Lister lists directories on a server.
type Lister interface {
	// List calls f with every entry of a directory, and returns how many lines
	// of the listing are in no form that is known.
	List(ctx context.Context, dir string, f func(Entry) error) (unknown int, err error)
	// Resolve asks about those entries of a directory that have Ask set, and
	// completes them. It keeps Name, Path and Below.
	Resolve(ctx context.Context, dir string, entries []Entry) error
	// Fault returns err as the failure of an operation, such as "list", on a path.
	// Nil stays nil, and so does what Fault has returned.
	Fault(op, path string, err error) error
}

// An unsafeName is an entry that can't be used, and why.
type unsafeName struct {
	name   string
	reason error
}

// A finder collects the files that a search is for.
type finder struct {
	Search
	l       Lister
	job     *courier.Context
	files   []Entry
	refused []unsafeName
	unknown int // lines
	bytes   int
	top     string
}

// Find lists what is wanted below the directory dir, in the order of the paths,
// and counts the entries that can't be used.
//
// Files that are still being uploaded by Courier don't exist yet, and are not
// listed. Links are not listed, or with Links followed, except to directories and
// where they lead nowhere. What is neither a file nor a directory isn't listed.
func (q Search) Find(ctx context.Context, job *courier.Context, l Lister, dir string) (found []Entry, skipped int, err error) {
	f := finder{Search: q, l: l, job: job, files: []Entry{}, top: dir}
	if err := f.walk(ctx, "", 0); err != nil {
		return nil, 0, err
	}
	slices.SortFunc(f.files, func(a, b Entry) int { return cmp.Compare(a.Below, b.Below) })
	return f.files, len(f.refused) + f.unknown, f.complain()
}

// walk lists the directory below, and those in it where they are wanted.
func (f *finder) walk(ctx context.Context, below string, depth int) error {
	dir := f.top
	if below != "" {
		dir = Join(f.top, below)
	}
	if depth > MaxDepth {
		return f.l.Fault("list", dir, courier.Permanent(fmt.Errorf("lies more than %d directories deep; narrow pattern", MaxDepth)))
	}
	found, err := f.list(ctx, dir, below)
	if err == nil {
		err = f.l.Resolve(ctx, dir, found)
	}
	if err != nil {
		return f.l.Fault("list", dir, err)
	}
	for _, e := range found {
		f.add(e)
		if e.IsDir && !e.Ask && f.Descends(e.Below) {
			if err := f.walk(ctx, e.Below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// list returns those entries of a directory that are wanted, or hold what is.
func (f *finder) list(ctx context.Context, dir, below string) ([]Entry, error) {
	var found []Entry
	seen := make(map[string]bool)
	unknown, err := f.l.List(ctx, dir, func(e Entry) error {
		if err := f.count(e, len(found)); err != nil {
			return err
		}
		if e.Name == "." || e.Name == ".." || IsSideFile(e.Name) || e.Link && !f.Links {
			return nil
		}
		e.Below = path.Join(below, e.Name)
		e.Path = Join(f.top, e.Below)
		if !f.wants(e) && !(e.IsDir && f.Descends(e.Below)) {
			return nil
		}
		if err := f.hold(len(e.Path)); err != nil {
			return err
		}
		reason := safename.Check(e.Name)
		if reason == nil && seen[e.Name] {
			reason = errors.New("the name is listed twice")
		}
		if reason != nil {
			f.refused = append(f.refused, unsafeName{e.Name, reason})
			return nil
		}
		seen[e.Name] = true
		found = append(found, e)
		return nil
	})
	f.unknown += unknown
	return found, err
}

func (f *finder) wants(e Entry) bool {
	return f.Matches(e.Below) || f.also != nil && f.also(e.Name)
}

// count adds an entry to what the listing holds.
func (f *finder) count(e Entry, here int) error {
	const overhead = 64
	if err := f.hold(len(e.Name) + overhead); err != nil {
		return err
	}
	if here+len(f.files)+len(f.refused) > MaxFiles {
		return courier.Permanent(fmt.Errorf("more than %d files; narrow pattern, or clean up the directory", MaxFiles))
	}
	f.job.Progress(0, -1, f.top)
	return nil
}

// hold counts bytes of what the listing holds. Directories may lie deep, so that
// short names make long paths.
func (f *finder) hold(n int) error {
	if f.bytes += n; f.bytes > MaxListingBytes {
		return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB, with the paths of what is found; narrow pattern, or clean up the directory", MaxListingBytes>>20))
	}
	return nil
}

// add takes an entry into the result if it is what is wanted.
func (f *finder) add(e Entry) {
	switch {
	case e.Odd, !f.wants(e), e.IsDir && !f.Directories:
		return
	case e.IsDir:
		e.Size = 0 // whatever the server means by it
	case e.Unusable != nil:
		f.refused = append(f.refused, unsafeName{e.Name, e.Unusable})
		return
	}
	f.files = append(f.files, e)
}

// complain reports entries that can't be used: it logs them, or fails.
func (f *finder) complain() error {
	if f.unknown > 0 {
		f.refused = append(f.refused, unsafeName{"", fmt.Errorf("%d lines of the listing are in an unknown format; the server offers no MLSD, or it is turned off", f.unknown)})
	}
	if len(f.refused) == 0 {
		return nil
	}
	const few = 10
	if f.Unsafe == UnsafeFail {
		first := f.refused[0]
		return f.l.Fault("list", f.top, courier.Permanent(fmt.Errorf("%d entries can't be used, the first is %s: %w; have it renamed, or set on_unsafe_name to %q",
			len(f.refused), safename.Quote(first.name), first.reason, UnsafeSkip)))
	}
	log := f.job.Log().With("directory", safename.Quote(f.top))
	for _, u := range f.refused[:min(few, len(f.refused))] {
		log.Warn("an entry of the server is skipped", "name", safename.Quote(u.name), "reason", u.reason.Error())
	}
	if more := len(f.refused) - few; more > 0 {
		log.Warn("more entries of the server are skipped", "count", more)
	}
	return nil
}

// checkSearch reports what is wrong with a search below remote_path.
func (a Account) checkSearch(dir string, q Search) error {
	return courier.Permanent(errors.Join(a.CheckPath("remote_path", dir), q.Check()))
}
