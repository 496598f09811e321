package ftptest_test

import "testing"

// TestExample runs the test that the example of this package shows.
func TestExample(t *testing.T) { testPipeline(t) }
