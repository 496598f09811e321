package storetest

import (
	"testing"

	"github.com/courierhq/courier/internal/test/raced"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storewrap"
)

// everyCase is of how many cases one is run. It has no factor in common with the numbers of
// kinds of faults, so that each kind has its turn.
var everyCase = raced.Or(7, 1)

func TestSurvive(t *testing.T) {
	survive(t, open, &Options{Virtual: true}, everyCase)
}

// TestSurviveEager does the same on a store that starts the first steps.
func TestSurviveEager(t *testing.T) {
	survive(t, func(*testing.T) store.Store { return storewrap.NewEager(memstore.New()) }, &Options{Virtual: true}, everyCase)
}
