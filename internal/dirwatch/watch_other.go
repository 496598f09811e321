//go:build !linux

package dirwatch

import (
	"context"
	"errors"
	"os"
)

// Watch returns [errors.ErrUnsupported]: this system reports no changes.
func Watch(context.Context, *os.File, string, func()) error { return errors.ErrUnsupported }
