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
		value int
	}{{"MaxOutput", o.MaxOutput}, {"MaxValue", o.MaxValue}, {"MaxParams", o.MaxParams}} {
		if d.value < 0 {
			add("Options.%s: %d bytes is negative; 0 means the default", d.name, d.value)
		}
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
	return courier.Errorf(courier.ErrInvalid, "%w", errors.Join(found...))
}

// tooLarge reports an outcome that is more than may be stored.
func (e *Engine) tooLarge(o *outcome) error {
	const overhead = 32 // of a file, besides its path
	files := 0
	for i := range o.files {
		files += len(o.files[i].Path) + overhead
	}
	if n := len(o.outputs) + files; n > e.opt.MaxOutput {
		return fmt.Errorf("the work is done, but its output has %d bytes and the list of its files %d, more than the %d of engine.Options.MaxOutput; "+
			"have the step give less, such as the path of a file with the rest, or raise the limit", len(o.outputs), files, e.opt.MaxOutput)
	}
	return nil
}
