package slots_test

import (
	"slices"
	"testing"

	"github.com/courierhq/courier/engine/internal/slots"
)

// TestPool counts slots that are held, those of executions that only end, and those of
// attempts that were cut off.
func TestPool(t *testing.T) {
	freed := make(chan struct{}, 1)
	p := slots.New(3, freed)
	free := func(what string, want int) {
		t.Helper()
		if got := p.Free(); got != want {
			t.Errorf("%s: %d are free, want %d", what, got, want)
		}
	}
	free("new", 3)
	a, b := p.Take(), p.Take()
	free("two taken", 1)
	a.SetEnding(true)
	a.SetEnding(true) // counts once
	free("one ends", 2)
	if len(freed) != 1 {
		t.Error("no signal that a slot is free")
	}
	a.SetEnding(false)
	free("it goes on", 1)
	a.SetEnding(true)
	a.Release()
	b.Release()
	free("both released", 3)

	p.Stuck("x")
	p.Stuck("x")
	free("two attempts are stuck", 1)
	p.Returned("x")
	if !p.IsStuck("x") || p.IsStuck("y") || !slices.Equal(p.AllStuck(), []string{"x"}) {
		t.Errorf("stuck are %v", p.AllStuck())
	}
	p.Returned("x")
	free("both returned", 3)
	if p.IsStuck("x") {
		t.Error("x is stuck")
	}

	var none *slots.Slot
	none.SetEnding(true) // of an execution that needs no slot
	free("none", 3)
	for range 4 { // the last writes take long: no more are claimed than can be written
		p.Take().SetEnding(true)
	}
	free("four end", 2)
}
