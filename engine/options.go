package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// The shortest lease that can be renewed in time, and the shortest time between two
// looks. What is shorter was meant in another unit.
const (
	minLease = 10 * time.Millisecond
	minPoll  = time.Millisecond
)

// check returns all that is wrong with the options, before the defaults are set.
func (o *Options) check() error {
	var found []error
	add := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	if o.Slots < 0 {
		add("Options.Slots: %d is negative; 0 means the default", o.Slots)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"Lease", o.Lease, minLease}, {"Poll", o.Poll, minPoll}, {"SoftStop", o.SoftStop, 0}, {"Grace", o.Grace, 0}, {"Orphans", o.Orphans, 0},
	} {
		switch {
		case d.value < 0:
			add("Options.%s: %v is negative; 0 means the default", d.name, d.value)
		case d.value > 0 && d.value < d.least:
			add("Options.%s: %v is less than %v; give it a unit, such as %d*time.Second", d.name, d.value, d.least, d.value)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", courier.ErrInvalid, errors.Join(found...))
}
