package sftp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
)

// A Lister lists directories of SFTP servers for monitors. Each listing has a
// connection of its own, which it closes.
type Lister struct {
	connections Connections
	opt         ListerOptions
}

// ListerOptions are the settings of a [Lister]. The zero value is the default.
type ListerOptions struct {
	// Secrets resolves the secrets of connections, as that of the engine's options
	// does. Nil means that there are none.
	Secrets func(ctx context.Context, name string) (string, error)
	Log     *slog.Logger // nil means none
}

var _ courier.Lister = (*Lister)(nil)

// NewLister returns a lister of directories on the servers of c, which must not
// be nil. A nil opt means the defaults.
func NewLister(c Connections, opt *ListerOptions) *Lister {
	if c == nil {
		panic("sftp: new lister: connections are missing")
	}
	l := &Lister{connections: c}
	if opt != nil {
		l.opt = *opt
	}
	return l
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
func (l *Lister) List(ctx context.Context, t courier.MonitorTarget) (courier.Listing, error) {
	var got courier.Listing
	if err := l.Check(t); err != nil {
		return got, err
	}
	job := courier.NewContext(courier.ContextConfig{Secrets: l.opt.Secrets, Log: l.opt.Log})
	defer job.Close()
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
