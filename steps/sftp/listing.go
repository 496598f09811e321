package sftp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// maxEmptyParts is how many answers without an entry may come in a row. A server
// could go on for ever.
const maxEmptyParts = 100

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
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
	return 0, l.each(ctx, dir, func(e entry) error { return f(e.attrs.entry(e.name)) }, func() {})
}

// entry describes what has the attributes.
func (a attrs) entry(name string) remote.Entry {
	e := remote.Entry{Name: name, Modified: a.modified(), IsDir: a.isDir(), Regular: a.mode&modeType == modeRegular, Link: a.isLink(), Ask: a.isLink(), Odd: !a.isDir() && !a.isFile() && !a.isLink()}
	if a.isFile() {
		e.Size, e.Unusable = a.fileSize()
	}
	return e
}

// Resolve replaces the attributes of links by those of what they lead to.
func (l lister) Resolve(ctx context.Context, _ string, entries []remote.Entry) error {
	var links []*remote.Entry
	for i := range entries {
		if entries[i].Ask {
			links = append(links, &entries[i])
		}
	}
	return parallel.Do(ctx, len(links), manyRequests, func(ctx context.Context, i int) error {
		a, err := l.stat(ctx, links[i].Path)
		if err != nil && !isStatus(err) {
			return err
		}
		e := a.entry(links[i].Name)
		e.Path, e.Below, e.Ask, e.Odd = links[i].Path, links[i].Below, true, e.Odd || err != nil
		*links[i] = e
		return nil
	})
}

func (l lister) Fault(dir string, err error) error { return l.fault("list", dir, err) }

// each calls f with every entry of a directory, as the server sends it, and
// part after each part of the listing.
func (s *session) each(ctx context.Context, dir string, f func(entry) error, part func()) error {
	h, err := s.openDirectory(ctx, dir)
	if err != nil {
		return err
	}
	defer s.closeHandle(ctx, h)
	ctx, guard := s.limits.Listing().Guard(ctx)
	defer guard.End()
	bytes, empty := 0, 0
	for {
		entries, n, err := s.readdir(ctx, h)
		if status, ok := err.(*statusError); ok && status.code == statusEOF {
			return nil
		}
		if err != nil {
			return err
		}
		guard.At(int64(bytes + n))
		if bytes += n; bytes > remote.MaxListingBytes {
			return courier.Permanent(fmt.Errorf("the listing is longer than %d MiB; have the directory tidied up", remote.MaxListingBytes>>20))
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

// checkPath reports a remote path that no server can understand.
func checkPath(field, p string) error {
	if strings.ContainsRune(p, 0) {
		return courier.Permanent(fmt.Errorf("%s: %s contains a NUL character", field, safename.Quote(p)))
	}
	return nil
}
