package pgstore

import "encoding/json"

// MarshalJSON writes the remaining time as remaining_seconds.
func (l HeldLease) MarshalJSON() ([]byte, error) {
	type plain HeldLease // without methods
	return json.Marshal(struct {
		plain
		Remaining float64 `json:"remaining_seconds"`
	}{plain(l), l.Remaining.Seconds()})
}

// MarshalJSON writes the age as age_seconds.
func (w Waiting) MarshalJSON() ([]byte, error) {
	type plain Waiting // without methods
	return json.Marshal(struct {
		plain
		Age float64 `json:"age_seconds"`
	}{plain(w), w.Age.Seconds()})
}

// MarshalJSON writes the waiting time as wait_seconds.
func (p PoolUse) MarshalJSON() ([]byte, error) {
	type plain PoolUse // without methods
	return json.Marshal(struct {
		plain
		Wait float64 `json:"wait_seconds"`
	}{plain(p), p.WaitTime.Seconds()})
}

// MarshalJSON writes the age as age_seconds.
func (x XminHolder) MarshalJSON() ([]byte, error) {
	type plain XminHolder // without methods
	return json.Marshal(struct {
		plain
		Age float64 `json:"age_seconds"`
	}{plain(x), x.Age.Seconds()})
}
