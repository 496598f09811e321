package jsontext_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/jsontext"
)

func nested(n int) json.RawMessage {
	return json.RawMessage(strings.Repeat(`{"[":[`, n/2) + strings.Repeat("]}", n/2))
}

// TestMaxDepth: what is nested deeper than readers elsewhere read is not stored.
func TestMaxDepth(t *testing.T) {
	for depth, fails := range map[int]bool{jsontext.MaxDepth: false, jsontext.MaxDepth + 2: true, 9000: true} {
		raw, err := jsontext.Append(nil, nested(depth))
		if (err != nil) != fails || jsontext.Depth(raw) != depth {
			t.Errorf("%d: %v, %d deep", depth, err, jsontext.Depth(raw))
		}
	}
}
