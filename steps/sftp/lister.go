package sftp

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// A Lister is a [courier.Connected] of directories on SFTP servers. Each call of its
// method List has a connection of its own.
type Lister struct{ *remote.MonitorLister }

var _ courier.Connected = (*Lister)(nil)

// NewLister returns a lister of directories on the servers of c, which must not
// be nil.
func NewLister(c Connections) *Lister {
	if c == nil {
		panic("sftp: new lister: the argument c, the Connections, is nil")
	}
	known := func(ctx context.Context, id string) error {
		_, err := c.Connection(ctx, id)
		return err
	}
	return &Lister{remote.NewMonitorLister(checkPath, func(job *courier.Context, id string) remote.Account { return account(job, c, id) }, known)}
}
