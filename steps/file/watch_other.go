//go:build !linux

package file

import (
	"context"
	"errors"

	"github.com/courierhq/courier"
)

// Watch tells of nothing on this system; changes are found by the next listing.
func (l *Lister) Watch(context.Context, courier.MonitorTarget, func()) error {
	return errors.ErrUnsupported
}
