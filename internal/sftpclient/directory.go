package sftpclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier/internal/failure"
)

// maxEmptyParts is how many answers without an entry may come in a row. A server
// could go on for ever.
const maxEmptyParts = 100

// List calls f with every entry of a directory, as the server sends it, and with
// any name. It calls part with the bytes so far for each part of the listing. More
// than limit bytes are an error.
func (s *Client) List(ctx context.Context, dir string, limit int, f func(Entry) error, part func(bytes int)) error {
	h, err := s.OpenDirectory(ctx, dir)
	if err != nil {
		return err
	}
	defer s.CloseHandle(ctx, h)
	bytes, empty := 0, 0
	for {
		entries, n, err := s.readdir(ctx, h)
		if status, ok := err.(*StatusError); ok && status.Code == statusEOF {
			return nil
		}
		if err != nil {
			return err
		}
		part(bytes + n)
		if bytes += n; bytes > limit {
			return failure.Permanent(fmt.Errorf("the listing is longer than %d MiB; have the directory tidied up", limit>>20))
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
	}
}

// OpenDirectory opens a directory. Servers have many words for a file in its
// place, so it looks.
func (s *Client) OpenDirectory(ctx context.Context, dir string) (string, error) {
	h, err := s.opendir(ctx, dir)
	if IsStatus(err) {
		if a, e := s.Stat(ctx, dir); e == nil && a.Mode&ModeType != 0 && !a.IsDir() {
			return "", failure.Permanent(errors.New("is not a directory"))
		}
	}
	return h, err
}

// CloseHandle closes a handle whose content no longer matters, even if ctx has
// ended while the connection lives on.
func (s *Client) CloseHandle(ctx context.Context, handle string) {
	ctx, cancel := Detached(ctx)
	defer cancel()
	s.close(ctx, handle)
}

// cleanupTimeout is how long tidying up may take.
const cleanupTimeout = 5 * time.Second

// Detached returns a context for tidying up after the end of ctx. If the whole
// step has ended, so has its connection, and nothing waits.
func Detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
}

// Peek counts the first entries of a directory that the server tells in one
// answer.
func (s *Client) Peek(ctx context.Context, dir string) (int, error) {
	h, err := s.opendir(ctx, dir)
	if err != nil {
		return 0, err
	}
	defer s.CloseHandle(ctx, h)
	entries, _, err := s.readdir(ctx, h)
	if status, ok := err.(*StatusError); ok && status.Code == statusEOF {
		err = nil
	}
	return len(entries), err
}
