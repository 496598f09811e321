package secret

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/text"
)

// A Redactor removes secrets from text. All text that leaves a step, a lister or a
// delivery goes through one of its methods, before it is cut. The zero value has no
// secrets and is ready to use; it may be used by several goroutines.
type Redactor struct{ courier.Redactor }

// Clean returns text without secrets, to be shown or logged.
func (d *Redactor) Clean(s string) string { return d.Redact(s) }

// CleanError returns err with a text without secrets; errors.Is and errors.As see
// the original.
func (d *Redactor) CleanError(err error) error {
	message, ok := text.OfError(err)
	if clean := d.Clean(message); !ok || clean != message {
		return &redactedError{clean, err}
	}
	return err
}

type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }
func (e *redactedError) Unwrap() error { return e.err }

// Message is the text of an error as it can be stored and shown: without
// secrets, NUL and invalid UTF-8, and not too long.
func (d *Redactor) Message(err error) string {
	s, _ := text.OfError(err)
	return d.Text(s, text.MaxMessage)
}

// Text returns text as it can be stored and shown: without secrets, NUL and invalid
// UTF-8. Of more than most bytes it returns that many and "... (cut)".
func (d *Redactor) Text(s string, most int) string { return text.Valid(d.Clean(s), most) }
