package couriertest_test

import (
	"errors"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// TestPerIteration: each item has its own answers, also when it is tried again.
func TestPerIteration(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		size := func(n int) couriertest.StubFunc { return couriertest.Returns(m{"size": n}) }
		s := h.Stub("demo.get", couriertest.PerIteration(
			size(1),
			couriertest.Sequence(couriertest.Fails(errors.New("busy")), nil, size(9)),
			couriertest.Sequence(couriertest.Fails(errors.New("busy")), size(3)),
			nil,
		))
		job := courier.Job{Name: "loop", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}, Params: m{"items": nil}, Steps: []courier.StepSpec{
			{Type: "flow.foreach", Config: m{"source": "context:params.items"}},
			{ID: "get", Type: "demo.get"},
			{Type: "flow.end"},
		}}
		h.Run(job, m{"items": []int{1, 2, 3, 4}}).RequireState(courier.Completed).RequireTrace(
			"1 demo.get[0] completed", "1 demo.get[1] failed", "1 demo.get[1]#2 completed", "1 demo.get[2] failed", "1 demo.get[2]#2 completed", "1 demo.get[3] completed",
		)
		if n := len(s.Calls()); n != 6 {
			t.Errorf("%d calls", n)
		}
		h.Run(job, m{"items": []int{1, 2, 3, 4, 5}}).RequireState(courier.Failed).RequireError("there is no answer for iteration 4; there are 4 answers")
		h.Run(courier.Job{Name: "plain", Steps: []courier.StepSpec{{Type: "demo.get"}}}, nil).RequireError("step 0 is not in a loop")
	})
}

// TestSequence: the last answer is that of all further calls.
func TestSequence(t *testing.T) {
	h := couriertest.New(t, nil)
	h.Stub("demo.get", couriertest.Sequence(couriertest.Returns(m{"n": 1}), couriertest.Returns(m{"n": 2})))
	h.Stub("demo.none", couriertest.Sequence())
	get := courier.StepSpec{Type: "demo.get"}
	h.Run(courier.Job{Name: "j", Steps: []courier.StepSpec{get, get, get, {Type: "demo.none"}}}, nil).
		RequireState(courier.Completed).RequireValue("0.n", 1).RequireValue("1.n", 2).RequireValue("2.n", 2).RequireNoValue("3.n")
}
