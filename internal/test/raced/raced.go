// Package raced tells tests whether they run with the race detector, which
// makes them several times slower: those that go through very many cases then
// take some of them, and .ci/test or a plain go test takes all.
package raced

// Or returns what holds with the race detector, or what does without.
func Or[T any](with, without T) T {
	if On {
		return with
	}
	return without
}
