package courier

import (
	"fmt"
	"testing"
)

// TestProgressForgets names as many items as a hostile directory has.
func TestProgressForgets(t *testing.T) {
	job := NewContext(ContextConfig{})
	for i := range 1000 {
		job.Progress(0, -1, fmt.Sprint(i)) // nothing is known of its size
		job.Progress(5, 5, fmt.Sprint("finished ", i))
	}
	if n := len(job.items); n > 0 {
		t.Errorf("%d items are kept in memory, none of which is under way", n)
	}
}
