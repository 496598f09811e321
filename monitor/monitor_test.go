package monitor_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/monitor"
)

// TestMonitorJSON writes a monitor and reads it back.
func TestMonitorJSON(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	m := monitor.Monitor{
		Name: "m", Description: "d", Lister: "sftp", Connection: "acme", Path: "/in", Patterns: []string{"*"}, Events: []monitor.Event{"exists"},
		Every: 1500 * time.Millisecond, Calendar: "k", Between: monitor.Hours{From: "06:00", Until: "19:30"}, Stable: time.Second, DoneFile: ".done", Batch: true, Job: "j", Chain: "c", Expectation: "e", Params: map[string]any{"a": "b"},
		Priority: -3, MaxFailures: 2, Disabled: true, State: monitor.Paused, Reason: "r", NextPoll: at, SavedAt: at,
		Health: monitor.Health{LastPoll: at, PollSeconds: 0.5, Files: 1, Waiting: 2, Refused: 3, Failures: 4, Problem: "p", Triggered: 5, LastTriggered: at, LastExecution: "x"},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(m), reflect.ValueOf(m.Health)} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s is not tried", v.Type().Field(i).Name)
			}
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back monitor.Monitor
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("%s\nread as %+v, %v", text, back, err)
	}
	if d := m.Definition(); d.State != "" || d.Disabled || d.Health.Files != 0 || !d.NextPoll.IsZero() || d.Path == "" || d.MaxFailures == 0 {
		t.Errorf("definition %+v", d)
	}
	for text, want := range map[string]string{
		`{"name": "m", "pattern": []}`:         `unknown field "pattern"; did you mean "patterns"?`,
		`{"name": "m", "every_seconds": -1}`:   "negative",
		`{"name": "m", "saved_at": "tuesday"}`: "must be an instant",
		`{"name": "m", "between": {"to": 5}}`:  `unknown field "to"`,
		`[]`:                                   "must be an object",
	} {
		if err := json.Unmarshal([]byte(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestSelects compares names with patterns.
func TestSelects(t *testing.T) {
	for _, tt := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.csv", "a.csv", true}, {"*.csv", "a.csvx", false}, {"*", "", true}, {"?", "", false}, {"?", "é", true}, {"a*b*c", "aXbXbc", true},
		{"a*b*c", "acb", false}, {"**a**", "bab", true}, {"[a]", "a", false}, {"[a]", "[a]", true}, {"A", "a", false}, {"a?c", "abc", true},
		{strings.Repeat("a*", 100) + "b", strings.Repeat("a", 200), false},
	} {
		m := monitor.Monitor{Patterns: []string{"no", tt.pattern}}
		if got := m.Selects(tt.name); got != tt.want {
			t.Errorf("%q selects %q: %v", tt.pattern, tt.name, got)
		}
	}
	m := monitor.Monitor{DoneFile: ".done"}
	if m.Selects("a.done") || !m.Selects("a") {
		t.Error("done files are selected")
	}
}
