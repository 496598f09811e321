package sftp

import (
	"context"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// A Lister lists directories of SFTP servers for monitors. Each look has a
// connection of its own.
type Lister struct{ connections Connections }

var _ courier.Lister = (*Lister)(nil)

// NewLister returns a lister of directories on the servers of c, which must not
// be nil.
func NewLister(c Connections) *Lister {
	if c == nil {
		panic("sftp: new lister: the argument c, the Connections, is nil")
	}
	return &Lister{c}
}

// Least is 30 seconds.
func (l *Lister) Least() time.Duration { return 30 * time.Second }

// Check reports whether a connection and a path are given.
func (l *Lister) Check(t courier.MonitorTarget) error { return remote.CheckTarget(t, checkPath) }

// List returns the files of a directory.
func (l *Lister) List(ctx context.Context, job *courier.Context, t courier.MonitorTarget) (courier.Listing, error) {
	var got courier.Listing
	if err := l.Check(t); err != nil {
		return got, err
	}
	err := account(job, l.connections, t.Connection).Use(ctx, func(s remote.Server) (err error) {
		got, err = remote.ListTarget(ctx, job, s, t)
		return err
	})
	return got, err
}
