package engine_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/couriertest"
)

// TestNamesThatNoURLCanHold refuses jobs and chains that no path of a URL can name, since
// "." and ".." are removed from it.
func TestNamesThatNoURLCanHold(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.a", nil)
	define := func(name string) (jobErr, chainErr error) {
		_, jobErr = h.Engine.Jobs().Define(t.Context(), courier.Job{Name: name, Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil)
		_, chainErr = h.Engine.Chains().Define(t.Context(), chain.Chain{Name: name, Members: []chain.Member{{Job: "a"}}}, nil)
		return jobErr, chainErr
	}
	if jobErr, chainErr := define("a"); jobErr != nil || chainErr != nil {
		t.Fatal(jobErr, chainErr)
	}
	for _, name := range []string{".", ".."} {
		jobErr, chainErr := define(name)
		var problems []courier.Problem
		if e, ok := errors.AsType[*courier.DefinitionError](jobErr); ok {
			problems = append(problems, e.Problems...)
		}
		if e, ok := errors.AsType[*chain.Error](chainErr); ok {
			problems = append(problems, e.Problems...)
		}
		if len(problems) != 2 {
			t.Errorf("%q: %v, %v", name, jobErr, chainErr)
		}
		for _, p := range problems {
			if !strings.Contains(p.Message, "can't be a part of a URL") {
				t.Errorf("%q: %v", name, p)
			}
		}
	}
	if job, chain := define("..."); job != nil || chain != nil {
		t.Error(job, chain)
	}
}
