package httpapi

import (
	"errors"
	"strings"

	"github.com/courierhq/courier/internal/eventstream"
)

// openStream begins an answer with events. It returns an error if a server or a middleware buffers
// the answer.
func (c *call) openStream() (*eventstream.Stream, error) {
	s, err := eventstream.Open(c.w)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, problemf(codeUnsupported, "what stands before the API in this service can't pass on a stream (its http.ResponseWriter has neither Flush nor Unwrap): poll instead, with Accept: application/json")
	}
	c.wrote = err == nil
	return s, err
}

// wantsJSON reports whether the client asks for a page in JSON instead of a stream.
func (c *call) wantsJSON() bool {
	accept := strings.Join(c.r.Header.Values("Accept"), ",")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, eventstream.Media)
}
