// Package wakeup wakes goroutines by channels that have room for one value.
package wakeup

// Send sends to c, which has room for one value, unless a value is there already.
func Send(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Taken receives a value that is there, and reports whether there was one.
func Taken[T any](c <-chan T) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
