package wakeup_test

import (
	"testing"

	"github.com/courierhq/courier/internal/wakeup"
)

// TestWakeup: several wakeups that nobody has taken are one, and none of them blocks.
func TestWakeup(t *testing.T) {
	c := make(chan struct{}, 1)
	if wakeup.Taken(c) {
		t.Error("there is a wakeup before one was sent")
	}
	for range 3 {
		wakeup.Send(c)
	}
	if !wakeup.Taken(c) || wakeup.Taken(c) {
		t.Error("three wakeups are not one")
	}
	if wakeup.Send(c); !wakeup.Taken(c) {
		t.Error("the channel is not used again")
	}
	if wakeup.Send(nil); wakeup.Taken[int](nil) {
		t.Error("a channel that is not there has a wakeup")
	}
}
