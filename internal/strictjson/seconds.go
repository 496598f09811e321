package strictjson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/courierhq/courier/internal/errtext"
)

// Seconds is a duration that JSON writes as a number of seconds.
type Seconds time.Duration

// MarshalJSON writes the duration with all its digits.
func (s Seconds) MarshalJSON() ([]byte, error) {
	sign, n := "", uint64(s)
	if s < 0 {
		sign, n = "-", -n
	}
	b := fmt.Appendf(nil, "%s%d.%09d", sign, n/uint64(time.Second), n%uint64(time.Second))
	return bytes.TrimSuffix(bytes.TrimRight(b, "0"), []byte(".")), nil
}

// UnmarshalJSON reads a number of seconds; null changes nothing.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	// A float can't hold the nanoseconds of times longer than some weeks.
	if d, err := time.ParseDuration(text + "s"); err == nil && d.Abs() > 1e6*time.Second {
		*s = Seconds(d)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return fmt.Errorf("must be a number of seconds, not %s", errtext.Shorten(text, 60))
	case f != 0 && math.Abs(f) < 1e-9:
		return fmt.Errorf("%s is less than a nanosecond; 0 means none", errtext.Shorten(text, 60))
	case math.Abs(f) > float64(math.MaxInt64/time.Second):
		return fmt.Errorf("%s is too large", errtext.Shorten(text, 60))
	}
	*s = Seconds(math.Round(f * float64(time.Second)))
	return nil
}
