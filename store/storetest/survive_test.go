package storetest_test

import (
	"testing"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/store/storetest"
	"github.com/courierhq/courier/store/storewrap"
)

func TestSurvive(t *testing.T) {
	storetest.Survive(t, func(*testing.T) store.Store { return memstore.New() }, &storetest.Options{Virtual: true})
}

// TestSurviveEager does the same on a store that starts the first steps.
func TestSurviveEager(t *testing.T) {
	storetest.Survive(t, func(*testing.T) store.Store { return storewrap.NewEager(memstore.New()) }, &storetest.Options{Virtual: true})
}
