package target

import (
	"testing"

	"github.com/courierhq/courier/store"
)

// TestTarget has each way to name a target.
func TestTarget(t *testing.T) {
	for _, tt := range []struct {
		job, chain, field string
		kind              store.Kind
		name              string
	}{
		{"a", "", "", store.Job, "a"},
		{"", "b", "", store.Chain, "b"},
		{"", "", "job", store.Chain, ""},
		{"a", "b", "chain", store.Job, "a"},
	} {
		field, problem := Check("schedule", tt.job, tt.chain)
		if field != tt.field || (problem == "") != (field == "") {
			t.Errorf("job %q, chain %q: %s: %s", tt.job, tt.chain, field, problem)
		}
		kind, name := Of(tt.job, tt.chain)
		if kind != tt.kind || name != tt.name {
			t.Errorf("job %q, chain %q: %s %q", tt.job, tt.chain, kind, name)
		}
		if job, chain := Names(kind, name); field == "" && (job != tt.job || chain != tt.chain) {
			t.Errorf("%s %q: job %q, chain %q", kind, name, job, chain)
		}
	}
}
