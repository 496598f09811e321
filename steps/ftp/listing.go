package ftp

import (
	"context"
	"errors"
	"time"

	"github.com/courierhq/courier/internal/ftpclient"
	"github.com/courierhq/courier/internal/remote"
)

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it; without MLSD only to the minute or day, and in the server's time zone as if that were UTC"`
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
	return l.Conn.List(ctx, dir, true, func(e ftpclient.Entry) error {
		return f(remote.Entry{Name: e.Name, Size: e.Size, Modified: e.Modified, IsDir: e.IsDir, Odd: e.Odd, Link: e.Link, Ask: e.Link || !e.IsDir && !e.Odd && e.Size < 0})
	})
}

func (l lister) Resolve(ctx context.Context, _ string, entries []remote.Entry) error {
	for i := range entries {
		e := &entries[i]
		if !e.Ask {
			continue
		}
		n, err := l.Stat(ctx, e.Path)
		switch {
		case ftpclient.IsReply(err):
			e.Odd = true
		case err != nil:
			return err
		case !n.IsDir && n.Size < 0:
			e.Unusable = errors.New("the server doesn't tell its size")
		}
		e.Size, e.Modified, e.IsDir = n.Size, n.Modified, n.IsDir
	}
	return nil
}

func (l lister) Fault(dir string, err error) error { return l.fault("list", dir, err) }
