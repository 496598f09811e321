package sftp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// What a listing may hold. A server could go on for ever.
const (
	maxFiles        = 100_000  // that are asked for
	maxListingBytes = 64 << 20 // of all entries, those that are not asked for included
	maxEmptyParts   = 100      // answers without an entry, in a row
)

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`

	plain bool // the server says that it is a regular file
}

// A search says which entries of a directory are wanted.
type search struct {
	pattern     string // of names; empty means all
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
	case strings.Contains(q.pattern, "/"):
		return fmt.Errorf("pattern: %s contains a slash, but is compared with names; put the directory into remote_path", safename.Quote(q.pattern))
	case !doublestar.ValidatePattern(q.pattern):
		return fmt.Errorf("pattern: %s is malformed; known are *, ?, [a-z], [^a-z], {one,two} and \\ before a character that is meant itself", safename.Quote(q.pattern))
	}
	return nil
}

func (q search) matches(name string) bool {
	return q.pattern == "" || doublestar.MatchUnvalidated(q.pattern, name)
}

// An unsafeName is a name that can't be used, and why.
type unsafeName struct {
	name   string
	reason error
}

// files lists what is wanted of the directory dir, in the order of the names,
// and counts the entries whose names can't be used.
//
// Files that are still being uploaded by Courier don't exist yet, and are not
// listed. Links are followed; those that lead nowhere are not listed, nor is
// what is neither a file nor a directory.
func (s *session) files(ctx context.Context, job *courier.Context, dir string, q search) ([]File, int, error) {
	var wanted []entry
	var refused []unsafeName
	seen := make(map[string]bool)
	err := s.each(ctx, dir, func(e entry) error {
		if e.name == "." || e.name == ".." {
			return nil
		}
		if !q.matches(e.name) || isSideFile(e.name) {
			return nil
		}
		reason := safename.Check(e.name)
		if reason == nil && seen[e.name] {
			reason = errors.New("the name is listed twice")
		}
		if reason != nil {
			refused = append(refused, unsafeName{e.name, reason})
		} else {
			seen[e.name] = true
			wanted = append(wanted, e)
		}
		if len(wanted)+len(refused) > maxFiles {
			return courier.Permanent(fmt.Errorf("more than %d files; narrow pattern, or have the directory tidied up", maxFiles))
		}
		return nil
	}, func() { job.Progress(0, -1, dir) })
	if err != nil {
		return nil, 0, s.fault("list", dir, err)
	}
	if err := s.follow(ctx, dir, wanted); err != nil {
		return nil, 0, s.fault("list", dir, err)
	}
	files := []File{}
	for _, e := range wanted {
		isDir := e.attrs.isDir()
		if !isDir && !e.attrs.isFile() || isDir && !q.directories {
			continue
		}
		f := File{Name: e.name, Path: join(dir, e.name), Modified: e.attrs.modified(), IsDirectory: isDir, plain: e.attrs.mode&modeType == modeRegular}
		size, err := e.attrs.fileSize()
		if err != nil && !isDir {
			refused = append(refused, unsafeName{e.name, err})
			continue
		}
		if f.Size = size; isDir {
			f.Size = 0 // whatever the server means by it
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	return files, len(refused), s.refuse(job, dir, q, refused)
}

// refuse reports entries that can't be used: it logs them, or fails.
func (s *session) refuse(job *courier.Context, dir string, q search, refused []unsafeName) error {
	if len(refused) == 0 {
		return nil
	}
	const few = 10
	if q.unsafe == unsafeFail {
		first := refused[0]
		return s.fault("list", dir, courier.Permanent(fmt.Errorf("%d entries can't be used, the first is %s: %w; have it renamed, or set on_unsafe_name to %q",
			len(refused), safename.Quote(first.name), first.reason, unsafeSkip)))
	}
	log := job.Log().With("connection", s.id, "directory", safename.Quote(dir))
	for _, u := range refused[:min(few, len(refused))] {
		log.Warn("an entry of the server is skipped", "name", safename.Quote(u.name), "reason", u.reason.Error())
	}
	if more := len(refused) - few; more > 0 {
		log.Warn("more entries of the server are skipped", "count", more)
	}
	return nil
}

// sideMark is in the name of every file that a Courier is still uploading.
const sideMark = ".courier-tmp-"

func isSideFile(name string) bool { return strings.Contains(name, sideMark) }

// each calls f with every entry of a directory, as the server sends it, and
// part after each part of the listing.
func (s *session) each(ctx context.Context, dir string, f func(entry) error, part func()) error {
	h, err := s.openDirectory(ctx, dir)
	if err != nil {
		return err
	}
	defer s.closeHandle(ctx, h)
	bytes, empty := 0, 0
	for {
		entries, n, err := s.readdir(ctx, h)
		if status, ok := err.(*statusError); ok && status.code == statusEOF {
			return nil
		}
		if err != nil {
			return err
		}
		if bytes += n; bytes > maxListingBytes {
			return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB; have the directory tidied up", maxListingBytes>>20))
		}
		if empty++; len(entries) > 0 {
			empty = 0
		} else if empty > maxEmptyParts {
			return s.broken("its listing goes on without entries")
		}
		for _, e := range entries {
			if err := f(e); err != nil {
				return err
			}
		}
		part()
	}
}

// openDirectory opens a directory. Servers have many words for a file in its
// place, so it looks.
func (s *session) openDirectory(ctx context.Context, dir string) (string, error) {
	h, err := s.opendir(ctx, dir)
	if isStatus(err) {
		if a, e := s.stat(ctx, dir); e == nil && a.mode&modeType != 0 && !a.isDir() {
			return "", courier.Permanent(errors.New("is not a directory"))
		}
	}
	return h, err
}

// follow replaces the attributes of links by those of what they lead to. Links
// that lead nowhere stay links.
func (s *session) follow(ctx context.Context, dir string, entries []entry) error {
	var links []*entry
	for i := range entries {
		if entries[i].attrs.isLink() {
			links = append(links, &entries[i])
		}
	}
	return inParallel(ctx, len(links), manyRequests, func(ctx context.Context, i int) error {
		a, err := s.stat(ctx, join(dir, links[i].name))
		if isStatus(err) {
			return nil
		}
		if err == nil {
			links[i].attrs = a
		}
		return err
	})
}

// closeHandle closes a handle whose content no longer matters, even if ctx has
// ended while the session lives on.
func (s *session) closeHandle(ctx context.Context, handle string) {
	ctx, cancel := detached(ctx)
	defer cancel()
	s.close(ctx, handle)
}

// patience is how long tidying up may take.
const patience = 5 * time.Second

// detached returns a context for tidying up after the end of ctx. If the whole
// step has ended, so has its session, and nothing waits.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// join returns the path of name in dir.
func join(dir, name string) string {
	switch {
	case dir == "" || dir == ".":
		return name
	case strings.HasSuffix(dir, "/"):
		return dir + name
	}
	return dir + "/" + name
}

// split cuts a path into directory and name. "" and "/" have no name.
func split(p string) (dir, name string) {
	i := strings.LastIndexByte(p, '/')
	switch {
	case i < 0:
		return ".", p
	case i == 0:
		return "/", p[1:]
	}
	return p[:i], p[i+1:]
}

// checkPath reports a remote path that no server can understand.
func checkPath(field, p string) error {
	if strings.ContainsRune(p, 0) {
		return courier.Permanent(fmt.Errorf("%s: %s contains a NUL character", field, safename.Quote(p)))
	}
	return nil
}
