package glossary_test

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/glossary"
)

// TestStates: each state of executions is explained once, with what comes next, and has a look of
// its own on the pages.
func TestStates(t *testing.T) {
	seen := make(map[string]bool)
	for _, s := range glossary.States {
		if seen[s.State] || s.Text == "" || s.Next == "" {
			t.Errorf("%+v", s)
		}
		if seen[s.State] = true; format.LookOf(s.State) == format.LookOf("no such state") {
			t.Errorf("%s has no look", s.State)
		}
	}
	for _, s := range []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused, courier.Completed, courier.Failed, courier.Cancelled} {
		if !seen[string(s)] {
			t.Errorf("%s is not explained", s)
		}
	}
}

// TestKeysAndWords: each key and word stands once, and each key has another way.
func TestKeysAndWords(t *testing.T) {
	seen := make(map[string]bool)
	for _, k := range glossary.Keys {
		if seen[k.Key] || k.Text == "" || k.Instead == "" {
			t.Errorf("%+v", k)
		}
		seen[k.Key] = true
	}
	for _, w := range glossary.Words {
		if seen["word "+w.Name] || w.Value == "" {
			t.Errorf("%+v", w)
		}
		seen["word "+w.Name] = true
	}
}
