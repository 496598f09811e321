package courier

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDeepReports: a step can't have values stored that are nested too deep.
func TestDeepReports(t *testing.T) {
	job := NewContext(ContextConfig{})
	defer job.Close()
	for depth, fails := range map[int]bool{100: false, 1001: true, 2000: true} {
		deep := json.RawMessage(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		for what, err := range map[string]error{"set": job.Set("deep", deep), "cursor": job.SaveCursor(deep)} {
			if (err != nil) != fails {
				t.Errorf("%s, %d deep: %v", what, depth, err)
			}
		}
	}
}
