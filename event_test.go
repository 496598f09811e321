package courier_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

func TestEmitLimits(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n-2) }
	nested := func(n int) json.RawMessage {
		return json.RawMessage(strings.Repeat(`[{"a]\"":`, n/2) + "1" + strings.Repeat("}]", n/2))
	}
	for _, tt := range []struct {
		name    string
		payload any
		want    string // in the error; empty: none
	}{
		{"a", nil, ""}, {"row-read_2", map[string]int{"n": 1}, ""}, {"a", text(16 << 10), ""}, {"a", nested(100), ""},
		{"", 1, "a name is"}, {"A", 1, "a name is"}, {"a.b", 1, "a name is"}, {strings.Repeat("a", 51), 1, "a name is"},
		{"a", text(16<<10 + 1), "16385 bytes, more than 16384"}, {"a", nested(102), "nested more than 100 levels deep"},
		{"a", math.NaN(), "NaN"}, {"a", "\x00", "NUL"}, {"a", func() {}, "func"},
	} {
		job := courier.NewContext(courier.ContextConfig{})
		err := job.Emit(tt.name, tt.payload)
		if tt.want == "" {
			if err != nil || len(job.Reports().Events) != 1 || job.Reports().Events[0].Name != tt.name {
				t.Errorf("%q: %v, %v", tt.name, job.Reports().Events, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), tt.want) || !courier.IsPermanent(err) || len(job.Reports().Events) > 0 {
			t.Errorf("%q: %v, want a permanent error with %q", tt.name, err, tt.want)
		}
	}
}
