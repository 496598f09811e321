package versions_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/versions"
)

// TestCache: the sixteen versions that were used last are not read again. One that can't be read is
// not kept.
func TestCache(t *testing.T) {
	var c versions.Cache
	reads := 0
	get := func(number int, read bool) {
		t.Helper()
		before := reads
		v, err := c.Get("a", number, func() (courier.Job, error) {
			reads++
			return courier.Job{Name: fmt.Sprint("a", number), Steps: []courier.StepSpec{{Type: "demo.a"}}}, nil
		})
		if err != nil || v.Job.Name != fmt.Sprint("a", number) || v.Tree.Len() != 1 || (reads > before) != read {
			t.Errorf("version %d: %+v, %v, read: %v", number, v, err, reads > before)
		}
	}
	for i := range 16 {
		get(i, true)
	}
	get(0, false)
	get(16, true) // drops version 1, which was used longest ago
	get(0, false)
	get(1, true)
	if _, err := c.Get("b", 0, func() (courier.Job, error) { return courier.Job{Name: "b"}, nil }); err != nil {
		t.Error(err)
	}
	get(0, false) // another name is another version
	away := errors.New("out of reach")
	for range 2 {
		for want, job := range map[error]courier.Job{away: {}, nil: {Steps: []courier.StepSpec{{Type: "flow.end"}}}} {
			n := 0
			v, err := c.Get("bad", 1, func() (courier.Job, error) { n++; return job, want })
			if v != nil || err == nil || want != nil && err != want || n != 1 {
				t.Errorf("%v, %v, read %d times", v, err, n)
			}
		}
	}
}
