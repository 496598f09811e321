package remote

import (
	"context"
	"errors"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// CheckTarget reports whether a connection and a path are given for a monitor.
// What a path may hold is up to the protocol.
func CheckTarget(t courier.MonitorTarget, checkPath func(field, path string) error) error {
	switch {
	case t.Connection == "":
		return errors.New("connection_id: it is missing; name the connection to use")
	case t.Path == "":
		return errors.New("path: it is missing; name a directory")
	}
	return checkPath("path", t.Path)
}

// ListTarget lists the files of a directory for a monitor.
func ListTarget(ctx context.Context, job *courier.Context, l Lister, t courier.MonitorTarget) (courier.Listing, error) {
	found, refused, err := Search{Unsafe: UnsafeSkip}.Find(ctx, job, l, t.Path)
	if err != nil {
		return courier.Listing{}, err
	}
	got := courier.Listing{Files: make([]courier.ListedFile, len(found)), Refused: refused}
	for i, e := range found {
		got.Files[i] = courier.ListedFile{Name: e.Name, Path: e.Path, Size: e.Size, Modified: e.Modified}
	}
	if refused > 0 {
		got.Example = fmt.Sprintf("some in %s, which the log names", safename.Quote(t.Path))
	}
	return got, nil
}
