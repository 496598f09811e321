package core

import (
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

// TestRoles asks for a part that the wrapper of a store has and the store behind it has not.
func TestRoles(t *testing.T) {
	whole := memstore.New()
	if w, err := (Roles{Store: whole, Behind: whole}).Workers(); w == nil || err != nil {
		t.Errorf("%v, %v", w, err)
	}
	w, err := (Roles{Store: whole, Behind: struct{ store.Store }{whole}}).Workers()
	if w != nil || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "store.Workers") {
		t.Errorf("a part that is not there: %v, %v", w, err)
	}
	if w, err := (Roles{Store: whole, Behind: NoStore}).Workers(); w != nil || !errors.Is(err, ErrNoStore) {
		t.Errorf("without a store: %v, %v", w, err)
	}
}
