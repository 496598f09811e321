package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
)

// A deepServer has a directory in each directory, to a depth, and files with short
// names in the last.
type deepServer struct{ depth, files int }

func (s deepServer) List(_ context.Context, dir string, f func(remote.Entry) error) (int, error) {
	if strings.Count(dir, "/") < s.depth {
		return 0, f(remote.Entry{Name: strings.Repeat("d", 250), IsDir: true})
	}
	for i := range s.files {
		if err := f(remote.Entry{Name: fmt.Sprintf("%05d", i), Regular: true}); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (deepServer) Resolve(context.Context, string, []remote.Entry) error { return nil }

func (deepServer) Fault(_, dir string, err error) error { return fmt.Errorf("%.20q: %w", dir, err) }

// TestPathsCountInAListing has a listing of a megabyte whose paths would have 150:
// each short name stands for a path of 7,750 bytes.
func TestPathsCountInAListing(t *testing.T) {
	find := func(files int) ([]remote.Entry, error) {
		job := courier.NewContext(courier.ContextConfig{})
		defer job.Close()
		list, _, err := remote.Search{Pattern: "**", Unsafe: remote.UnsafeSkip}.Find(t.Context(), job, deepServer{31, files}, "/")
		return list, err
	}
	if list, err := find(8000); err != nil || len(list) != 8000 || len(list[0].Path) < 7500 {
		t.Errorf("62 MB of paths: %d files, %v", len(list), err)
	}
	list, err := find(20_000)
	if err == nil || !courier.IsPermanent(err) || !strings.Contains(err.Error(), "longer than 64 MiB, with the paths") || list != nil {
		t.Errorf("150 MB of paths: %d files, %v", len(list), err)
	}
	if errors.Is(err, courier.ErrInvalid) {
		t.Errorf("matches ErrInvalid: %v", err)
	}
}
