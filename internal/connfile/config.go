package connfile

import (
	"errors"
	"fmt"
	"strings"

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
	return Wrong(field, "%s: %s is unknown; %s", field, safename.Quote(value), nearest.DidYouMean(value, values))
}

// Wrong is an error about a field of a connection, which tells [ParseConnections] the line.
func Wrong(field, format string, args ...any) error {
	return &fieldError{field, fmt.Errorf(format, args...)}
}

type fieldError struct {
	field string
	err   error
}

func (e *fieldError) Error() string { return e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// InFile returns an error for each credential that stands in a file itself, by the names of
// their fields in turn with the texts. An empty text is none.
func InFile(credentials ...string) error {
	var errs []error
	for i := 0; i+1 < len(credentials); i += 2 {
		field, text := credentials[i], credentials[i+1]
		if text != "" && !strings.HasPrefix(text, "secret:") {
			errs = append(errs, Wrong(field, "%s: the credential itself stands in the file; keep it with the engine's Secrets, and write \"secret:NAME\"", field))
		}
	}
	return errors.Join(errs...)
}

// Permanent joins what is wrong with a configuration.
func Permanent(errs ...error) error { return courier.Permanent(errors.Join(errs...)) }
