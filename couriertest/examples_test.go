package couriertest_test

import "testing"

// TestExamples runs the tests that the examples of this package show.
func TestExamples(t *testing.T) {
	t.Run("fetch", testFetch)
	t.Run("retry", testRetry)
	t.Run("greet", testGreet)
}
