package main

import (
	"io"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/raced"
)

// TestPipeline looks that the benchmark works. The race detector takes memory of
// its own for all that is written.
func TestPipeline(t *testing.T) {
	limit := raced.Or(128.0, 64.0)
	h := &harness{quick: true, out: io.Discard, turn: time.Millisecond, rounds: 1}
	for _, b := range pipelines() {
		v, err := b.turn(t.Context(), h, courierName)
		if err != nil || len(v) != 2 || v[0] <= 0 || v[1] < 5 || v[1] > limit {
			t.Errorf("%s: %v, %v", b.name, v, err)
		}
	}
}
