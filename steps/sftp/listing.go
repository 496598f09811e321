package sftp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/parallel"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/sftpclient"
)

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
	return 0, l.each(ctx, dir, func(e sftpclient.Entry) error { return f(asEntry(e.Name, e.Attrs)) }, func() {})
}

// asEntry describes what has the attributes.
func asEntry(name string, a sftpclient.Attrs) remote.Entry {
	e := remote.Entry{Name: name, Modified: a.Modified(), IsDir: a.IsDir(), Regular: a.Mode&sftpclient.ModeType == sftpclient.ModeRegular, Link: a.IsLink(), Ask: a.IsLink(), Odd: !a.IsDir() && !a.IsFile() && !a.IsLink()}
	if a.IsFile() {
		e.Size, e.Unusable = a.FileSize()
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
		a, err := l.Stat(ctx, links[i].Path)
		if err != nil && !sftpclient.IsStatus(err) {
			return err
		}
		e := asEntry(links[i].Name, a)
		e.Path, e.Below, e.Ask, e.Odd = links[i].Path, links[i].Below, true, e.Odd || err != nil
		*links[i] = e
		return nil
	})
}

func (l lister) Fault(dir string, err error) error { return l.fault("list", dir, err) }

// checkPath reports a remote path that no server can understand.
func checkPath(field, p string) error {
	if strings.ContainsRune(p, 0) {
		return courier.Permanent(fmt.Errorf("%s: %s contains a NUL character", field, safename.Quote(p)))
	}
	return nil
}

// each calls f with every entry of a directory, as the server sends it, and
// part after each part of the listing.
func (s *session) each(ctx context.Context, dir string, f func(sftpclient.Entry) error, part func()) error {
	ctx, guard := s.limits.Listing().Guard(ctx)
	defer guard.End()
	return s.Conn.List(ctx, dir, remote.MaxListingBytes, f, func(bytes int) {
		guard.At(int64(bytes))
		part()
	})
}
