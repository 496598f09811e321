package storetest

import (
	"encoding/json"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// change returns a random change that a resume could make.
func (d *differ) change(x *courier.Execution) *store.Change {
	c := &store.Change{Seq: x.Seq, Repairs: d.repairs(3), Elsewhere: d.chance(4), Note: pick(d.rand, "", "from step 2 on")}
	if d.chance(10) {
		c.Seq += pick(d.rand, -1, int64(1))
	}
	if d.chance(4) {
		c.Version = &store.PinnedVersion{
			Version:   pick(d.rand, 1, 1, 2, 9),
			StepTypes: pick(d.rand, nil, []string{"a"}, []string{"c", "a"}), JobLimit: pick(d.rand, 0, 0, 1),
		}
	}
	if d.chance(3) {
		c.Move = &store.Move{Attempts: d.rand.IntN(3), Base: d.rand.IntN(9)}
		c.Move.Position = courier.Position{Step: d.rand.IntN(4), Loops: pick(d.rand, nil, []courier.LoopPosition{{Step: 1, Index: 3, Failed: 2, ItemFailed: true}})}
	}
	if d.chance(3) {
		c.Items = &store.ItemCount{Failed: d.rand.IntN(4), Accepted: d.rand.IntN(2), Target: d.rand.IntN(2)}
	}
	if d.chance(3) && !x.StartedAt.IsZero() {
		c.Skipped = &courier.StepExecution{
			Step: x.Position.Step, ID: pick(d.rand, "", "get"), Type: "a", Iteration: x.Position.Iteration(), Attempt: 1 + x.StepAttempts,
			State:   pick(d.rand, courier.StepSkipped, courier.StepSkipped, courier.StepSkipped, courier.StepCompleted),
			Outputs: pick(d.rand, nil, json.RawMessage(`{ "n": 1.0, "t": "<&\u00e9>" }`)), Reason: pick(d.rand, "", courier.ReasonError), Error: pick(d.rand, "", "why \"so\""),
			Files: pick(d.rand, nil, []courier.File{{Path: "a b"}}), Bytes: pick(d.rand, 0, int64(7)),
		}
	}
	return c
}

// repairs returns random repairs once in n times, and nil otherwise.
func (d *differ) repairs(n int) *courier.Repairs {
	if !d.chance(n) {
		return nil
	}
	r := new(courier.Repairs)
	if d.chance(2) {
		r.Versions = []courier.VersionChange{{Seq: 3, From: 1, To: 2, Steps: []int{0, -1}}}
	}
	if d.chance(2) {
		r.Values = []courier.ValueChange{{Seq: 3, Step: -1, Name: "day", Value: json.RawMessage(`{"a":[1.0,"<"],"z":null}`)}}
	}
	if d.chance(2) {
		r.Passes = []courier.RepairPass{{Seq: 3, Items: []courier.ItemPath{{Loop: 1, Iteration: []int{2}}}}, {Seq: 4, From: &courier.Position{Step: 1}}}
	}
	return r
}
