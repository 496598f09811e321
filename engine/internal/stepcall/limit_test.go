package stepcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/jsontext"
)

// An output that is nested too deep is a failure, like one that is too large.
func TestLimitOfDepth(t *testing.T) {
	for depth, fails := range map[int]bool{jsontext.MaxDepth: false, jsontext.MaxDepth + 1: true, 9000: true} {
		o := Outcome{Outputs: json.RawMessage(`{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + "}")}
		o.Limit(1 << 20)
		if (o.Err != nil) != fails || (o.Outputs == nil) != fails || fails && o.Reason != courier.ReasonError {
			t.Errorf("%d: %v, %d bytes", depth, o.Err, len(o.Outputs))
		}
	}
}
