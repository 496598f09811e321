package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// A MonitorLister lists directories on file servers for monitors. Each call of List
// has a connection of its own.
type MonitorLister struct {
	checkPath func(field, path string) error
	account   func(job *courier.Context, id string) Account
	known     func(ctx context.Context, id string) error
}

var _ courier.Connected = (*MonitorLister)(nil)

// NewMonitorLister returns a lister for one protocol. CheckPath reports a path that
// the protocol can't send. Account returns the connection called id, and known the error if there
// is none.
func NewMonitorLister(checkPath func(field, path string) error, account func(job *courier.Context, id string) Account, known func(ctx context.Context, id string) error) *MonitorLister {
	return &MonitorLister{checkPath, account, known}
}

// CheckConnection returns the error if there is no connection called id.
func (l *MonitorLister) CheckConnection(ctx context.Context, id string) error {
	return l.known(ctx, id)
}

// Least returns 30 seconds.
func (l *MonitorLister) Least() time.Duration { return 30 * time.Second }

// Check reports a missing connection or path, and a path that can't be sent.
func (l *MonitorLister) Check(t courier.Directory) error {
	switch {
	case t.Connection == "":
		return errors.New("connection_id: it is missing; name the connection to use")
	case t.Path == "":
		return errors.New("path: it is missing; name a directory")
	}
	return l.checkPath("path", t.Path)
}

// List returns the files of a directory.
func (l *MonitorLister) List(ctx context.Context, job *courier.Context, t courier.Directory) (courier.Listing, error) {
	var got courier.Listing
	if err := l.Check(t); err != nil {
		return got, err
	}
	err := l.account(job, t.Connection).Use(ctx, func(s Server) error {
		found, refused, err := Search{Unsafe: UnsafeSkip}.Find(ctx, job, s, t.Path)
		if err != nil {
			return err
		}
		got = courier.Listing{Files: make([]courier.ListedFile, len(found)), Refused: refused}
		for i, e := range found {
			got.Files[i] = courier.ListedFile{Name: e.Name, Path: e.Path, Size: e.Size, Modified: e.Modified}
		}
		if refused > 0 {
			got.Example = fmt.Sprintf("some in %s, which the log names", safename.Quote(t.Path))
		}
		return nil
	})
	return got, err
}
