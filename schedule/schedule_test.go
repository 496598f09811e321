package schedule_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/schedule"
)

// TestScheduleJSON writes a schedule and reads it back.
func TestScheduleJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := schedule.Schedule{
		Name: "s", Job: "j", Chain: "c", Cron: "0 0 3 * * ?", Zone: "UTC", Every: 1500 * time.Millisecond, At: at, Calendar: "k", OnClosed: schedule.ClosedNext, Starts: at, Ends: at,
		Params: map[string]any{"a": "b"}, Priority: -3, Overlap: schedule.OverlapQueue, Misfire: schedule.MisfireAll, Window: time.Hour,
		Jitter: time.Minute, PauseAfter: 4, Disabled: true, Paused: true, Reason: "r", NextFire: at, Waiting: true, LastFire: at,
		LastExecution: "x", Failures: 2, Problem: "p", SavedAt: at, MovesFrom: at,
	}
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is not tried", v.Type().Field(i).Name)
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back schedule.Schedule
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("%s\nread as %+v, %v", text, back, err)
	}
	if d := s.Definition(); d.Problem != "" || d.Disabled || !d.NextFire.IsZero() || d.Cron == "" || d.PauseAfter == 0 {
		t.Errorf("definition %+v", d)
	}
	for text, want := range map[string]string{
		`{"name": "s", "crn": ""}`:           `unknown field "crn"; did you mean "cron"?`,
		`{"name": "s", "every_seconds": -1}`: "negative",
		`{"name": "s", "at": "tomorrow"}`:    `must be an instant such as "2030-01-31T08:00:00Z", not "tomorrow"`,
		`[]`:                                 "must be an object",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
