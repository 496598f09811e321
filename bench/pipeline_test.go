package main

import (
	"io"
	"testing"
	"time"
)

func TestPipeline(t *testing.T) {
	h := &harness{quick: true, out: io.Discard, turn: time.Millisecond, rounds: 1}
	for _, b := range pipelines() {
		v, err := b.turn(t.Context(), h, courierName)
		if err != nil || len(v) != 2 || v[0] <= 0 || v[1] < 5 || v[1] > 64 {
			t.Errorf("%s: %v, %v", b.name, v, err)
		}
	}
}
