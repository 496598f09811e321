package main

import (
	"io"
	"testing"
	"time"
)

// All contestants do what is measured, in each turn.
func TestArchives(t *testing.T) {
	h := &harness{quick: true, out: io.Discard, turn: time.Second, rounds: 1}
	f, err := newFiles(true)
	if err != nil {
		t.Fatal(err)
	}
	f.size = 1 << 20
	h.files = f
	t.Cleanup(func() {
		if err := h.close(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range archives() {
		for _, who := range append([]string{courierName, courierName}, b.peers...) {
			v, err := b.turn(t.Context(), h, who)
			if err != nil || len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s: %s: %v, %v", b.name, who, v, err)
			}
		}
	}
}
