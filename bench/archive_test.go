package main

import (
	"io"
	"testing"
)

// All contestants do what is measured, in each turn.
func TestArchives(t *testing.T) {
	h := &harness{least: true, out: io.Discard}
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
