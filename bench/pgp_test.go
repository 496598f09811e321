package main

import (
	"os"
	"testing"
)

// TestPGP does the work of all benches with small files.
func TestPGP(t *testing.T) {
	h := &harness{least: true}
	for _, b := range pgpBenches() {
		for _, who := range []string{courierName, gnupgName} {
			v, err := b.turn(t.Context(), h, who)
			if err != nil || len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s, %s: %v, %v", b.name, who, v, err)
			}
		}
	}
	p := h.pgp
	if err := h.close(); err != nil {
		t.Error(err)
	}
	for _, dir := range []string{p.dir, p.home} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", dir, err)
		}
	}
}
