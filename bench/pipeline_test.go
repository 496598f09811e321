package main

import (
	"io"
	"testing"

	"github.com/courierhq/courier/internal/test/raced"
)

// TestPipeline looks that the benchmark works and stays below its limit, without
// the race detector, which takes as much again for its shadow of what is written.
func TestPipeline(t *testing.T) {
	const limit = 64
	allowed := raced.Or(2.0, 1.0) * limit
	h := &harness{least: true, out: io.Discard}
	for _, b := range pipelines() {
		v, err := b.turn(t.Context(), h, courierName)
		if err != nil || len(v) != 2 || v[0] <= 0 || v[1] < 5 || v[1] > allowed {
			t.Errorf("%s: %v, %v", b.name, v, err)
		}
	}
}
