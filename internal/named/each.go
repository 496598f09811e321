package named

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/courierhq/courier"
)

// page is how many records a store returns at once.
const page = 1000

// Each calls do for each record, in the order in which the store returns them; now is as
// [Records.Find] returns it. If there is no such store, the list is empty.
func (r *Records[S, R, P]) Each(ctx context.Context, do func(s S, record *R, now time.Time) error) error {
	s, err := r.Store()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	for after := ""; err == nil; {
		var list []R
		var now time.Time
		if list, now, err = r.List(ctx, s, "", after); err != nil {
			break
		}
		for i := range list {
			after = r.Name(&list[i])
			if err := do(s, &list[i], now); err != nil {
				return err
			}
		}
		if len(list) < page {
			return nil
		}
	}
	return fmt.Errorf("%ss: %w", r.Kind, err)
}

// Using returns the names of the records that use something.
func (r *Records[S, R, P]) Using(ctx context.Context, uses func(*R) bool) (names []string, err error) {
	err = r.Each(ctx, func(_ S, record *R, _ time.Time) error {
		if uses(record) {
			names = append(names, r.Name(record))
		}
		return nil
	})
	return names, err
}

// Rewrite calls write for each record that uses something that has changed. If somebody else
// changes the record meanwhile, so that the error is [courier.ErrConflict], write is called again;
// if the record is removed, it is left out.
func (r *Records[S, R, P]) Rewrite(ctx context.Context, uses func(*R) bool, write func(s S, record *R, now time.Time) error) error {
	return r.Each(ctx, func(s S, record *R, now time.Time) error {
		for n := 1; record != nil && uses(record); n++ {
			err := write(s, record, now)
			if !errors.Is(err, courier.ErrConflict) || n == maxWrites {
				return err
			}
			if record, now, err = r.Find(ctx, s, r.Name(record)); err != nil {
				return fmt.Errorf("%ss: %w", r.Kind, err)
			}
		}
		return nil
	})
}
