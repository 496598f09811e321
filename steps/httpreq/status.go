package httpreq

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A Status is a range of status codes. In JSON it is a number such as 200, or a
// string such as "200", "2xx" or "200-204".
type Status struct{ First, Last int }

// UnmarshalJSON reads a status.
func (s *Status) UnmarshalJSON(text []byte) error {
	var t string
	if json.Unmarshal(text, &t) != nil {
		t = string(text)
	}
	t = strings.ToLower(strings.TrimSpace(t))
	first, last, isRange := strings.Cut(t, "-")
	switch {
	case len(t) == 3 && t[1:] == "xx":
		first, last = t[:1]+"00", t[:1]+"99"
	case !isRange:
		last = first
	}
	a, errA := strconv.Atoi(first)
	b, errB := strconv.Atoi(last)
	if errA != nil || errB != nil || a < 100 || b > 599 || a > b {
		return errors.New(`expected_status: must be statuses between 100 and 599, such as 200, "2xx" or "200-204"`)
	}
	s.First, s.Last = a, b
	return nil
}

// MarshalJSON writes a status.
func (s Status) MarshalJSON() ([]byte, error) {
	if s.First == s.Last {
		return json.Marshal(s.First)
	}
	return json.Marshal(fmt.Sprintf("%d-%d", s.First, s.Last))
}

// expected reports whether a status counts as success.
func (p *prepared) expected(status int) bool {
	for _, s := range p.cfg.ExpectedStatus {
		if status >= s.First && status <= s.Last {
			return true
		}
	}
	return len(p.cfg.ExpectedStatus) == 0 && status >= 200 && status <= 299
}

// A waitError is a response that asks the client to wait and try again.
type waitError struct {
	err    error
	status int
	after  time.Duration // as the server asks for; 0 if it does not
}

func (e *waitError) Error() string {
	if e.after > 0 {
		return fmt.Sprintf("%v; the server asks to come back after %v, and max_retry_wait_seconds says how long the step may wait", e.err, e.after)
	}
	return e.err.Error()
}
func (e *waitError) Unwrap() error { return e.err }

// passing reports whether a status is temporary rather than a property of the
// request.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryAfter returns how long a response asks to wait, in either form of the
// header. It is at least a second, or 0 if the response does not ask to wait.
func retryAfter(h http.Header) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 {
			return 0
		}
		return time.Duration(max(1, min(n, int64(maxRetryAfter/time.Second)))) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return max(time.Second, min(time.Until(at), maxRetryAfter))
}

// maxRetryAfter is the maximum wait that a server can request.
const maxRetryAfter = 30 * 24 * time.Hour
