package failure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"testing"

	"github.com/courierhq/courier/internal/failure"
)

// TestClass checks the classes of errors: the outermost mark counts, and errors of the standard
// library have one of their own.
func TestClass(t *testing.T) {
	_, missing := os.Open("/nowhere/at/all")
	_, refused := net.Dial("tcp", "127.0.0.1:0")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                {errors.New("broken"), ""},
		"nil":                 {nil, ""},
		"marked":              {failure.WithClass(io.EOF, failure.Quota), failure.Quota},
		"marked twice":        {failure.WithClass(fmt.Errorf("x: %w", failure.WithClass(io.EOF, failure.Quota)), failure.Space), failure.Space},
		"wrapped":             {fmt.Errorf("x: %w", failure.Permanent(failure.WithClass(io.EOF, failure.Login))), failure.Login},
		"no file":             {missing, failure.NotFound},
		"a file":              {&fs.PathError{Op: "open", Err: fs.ErrExist}, failure.Exists},
		"time":                {fmt.Errorf("x: %w", context.DeadlineExceeded), failure.Timeout},
		"deadline of a net":   {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, failure.Connection},
		"nobody listens":      {refused, failure.Connection},
		"unknown host":        {&net.DNSError{Err: "no such host", Name: "nowhere.invalid"}, failure.Connection},
		"mark of a known one": {failure.WithClass(missing, failure.Integrity), failure.Integrity},
	} {
		if got := failure.Class(c.err); got != c.want {
			t.Errorf("%s: %q, want %q (%v)", name, got, c.want, c.err)
		}
	}
}

// TestMarks checks that marks change neither the text nor what an error is.
func TestMarks(t *testing.T) {
	err := failure.Permanent(failure.WithClass(fmt.Errorf("x: %w", io.EOF), failure.Login))
	if err.Error() != "x: EOF" || !errors.Is(err, io.EOF) || !failure.IsPermanent(fmt.Errorf("y: %w", err)) || !errors.Is(err, failure.ErrLogin) {
		t.Errorf("%v: permanent %v, login %v", err, failure.IsPermanent(err), errors.Is(err, failure.ErrLogin))
	}
	if failure.IsPermanent(io.EOF) || errors.Is(failure.WithClass(io.EOF, failure.Quota), failure.ErrLogin) {
		t.Error("errors have marks that nobody gave them")
	}
	if failure.Permanent(nil) != nil || failure.WithClass(nil, failure.Quota) != nil {
		t.Error("no error became one")
	}
}
