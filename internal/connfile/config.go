package connfile

import (
	"errors"
	"fmt"

	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safename"
)

// OneOf reports a value of a configuration field that is none of the given.
func OneOf(field, value string, values ...string) error {
	for _, v := range values {
		if v == value {
			return nil
		}
	}
	return fmt.Errorf("%s: %s is unknown; %s", field, safename.Quote(value), nearest.DidYouMean(value, values))
}

// Permanent joins what is wrong with a configuration.
func Permanent(errs ...error) error { return courier.Permanent(errors.Join(errs...)) }
