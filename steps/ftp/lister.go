package ftp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// A Lister lists directories of FTP servers for monitors. Each look has a
// connection of its own.
type Lister struct{ connections Connections }

var _ courier.Lister = (*Lister)(nil)

// NewLister returns a lister of directories on the servers of c, which must not
// be nil.
func NewLister(c Connections) *Lister {
	if c == nil {
		panic("ftp: new lister: connections are missing")
	}
	return &Lister{c}
}

// Least is 30 seconds.
func (l *Lister) Least() time.Duration { return 30 * time.Second }

// Check reports whether a connection and a path are given.
func (l *Lister) Check(t courier.MonitorTarget) error {
	switch {
	case t.Connection == "":
		return errors.New("connection_id: it is missing; name the connection to use")
	case t.Path == "":
		return errors.New("path: it is missing; name a directory")
	}
	return checkPath("path", t.Path)
}

// List returns the files of a directory.
func (l *Lister) List(ctx context.Context, job *courier.Context, t courier.MonitorTarget) (courier.Listing, error) {
	var got courier.Listing
	if err := l.Check(t); err != nil {
		return got, err
	}
	err := use(ctx, job, l.connections, t.Connection, func(s *session) error {
		found, refused, err := remote.Search{Unsafe: remote.UnsafeSkip}.Find(ctx, job, lister{s}, t.Path)
		if err != nil {
			return err
		}
		got.Files = make([]courier.ListedFile, len(found))
		for i, f := range asFiles(found) {
			got.Files[i] = courier.ListedFile{Name: f.Name, Path: f.Path, Size: f.Size, Modified: f.Modified}
		}
		if got.Refused = refused; refused > 0 {
			got.Example = fmt.Sprintf("some in %s, which the log names", safename.Quote(t.Path))
		}
		return nil
	})
	return got, err
}
