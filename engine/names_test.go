package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// TestNamesThatNoURLCanHold refuses jobs and chains that no path of a URL can name, since
// "." and ".." are removed from it.
func TestNamesThatNoURLCanHold(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	define := func(name string) (job, chain error) {
		_, job = h.Engine.Jobs().Define(t.Context(), courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil)
		_, chain = h.Engine.Chains().Define(t.Context(), courier.Chain{Name: name, Members: []courier.ChainMember{{Job: "a"}}}, nil)
		return job, chain
	}
	if job, chain := define("a"); job != nil || chain != nil {
		t.Fatal(job, chain)
	}
	for _, name := range []string{".", ".."} {
		job, chain := define(name)
		for _, err := range []error{job, chain} {
			if d, ok := errors.AsType[*courier.DefinitionError](err); !ok || len(d.Problems) != 1 || !strings.Contains(err.Error(), "can't be a part of a URL") {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if job, chain := define("..."); job != nil || chain != nil {
		t.Error(job, chain)
	}
}
