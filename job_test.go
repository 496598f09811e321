package courier_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

// TestJobDeadlines checks the JSON of the timeout and the deadlines of a job.
func TestJobDeadlines(t *testing.T) {
	const text = `{"name":"j","expected_by":"07:30 Europe/Berlin","timeout_seconds":90,"max_duration_seconds":0.5,"steps":[]}`
	var job courier.Job
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	if job.Timeout != 90*time.Second || job.MaxDuration != 500*time.Millisecond || job.ExpectedBy != "07:30 Europe/Berlin" {
		t.Errorf("read %+v", job)
	}
	if got, err := json.Marshal(job); err != nil || string(got) != text {
		t.Errorf("wrote %s (%v)", got, err)
	}
	if got, err := json.Marshal(courier.Job{Name: "j"}); err != nil || string(got) != `{"name":"j","steps":null}` {
		t.Errorf("wrote %s (%v) of a job without", got, err)
	}
	const want = `read job "j": 3 problems:
  line 2, column 21: timeout_seconds: -1 is negative
  line 3, column 26: max_duration_seconds: must be a number of seconds, not "1m"
  line 4, column 17: expected_by: must be a string, not a JSON number`
	err := json.Unmarshal([]byte(`{"name": "j",
 "timeout_seconds": -1,
 "max_duration_seconds": "1m",
 "expected_by": 7,
 "steps": []}`), &job)
	if err == nil || err.Error() != want {
		t.Errorf("error\n%v", err)
	}
}
