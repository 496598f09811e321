package jsonschema_test

import (
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// fill sets everything in v to a value that is not zero.
func fill(v reflect.Value) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(v.Type().Elem()))
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.Kind() == reflect.Interface:
		v.Set(reflect.ValueOf(1))
	case v.CanInt():
		v.SetInt(1)
	}
}

// TestFields: a schema has the fields that the JSON of its Go type has.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		kind, path string
		v          any
	}{
		{"job", "", new(courier.Job)}, {"job", "definitions/step", new(courier.StepSpec)}, {"job", "definitions/param", new(courier.Param)},
		{"job", "definitions/failure_policy/anyOf/1", new(courier.FailurePolicy)},
		{"job", "properties/depends_on/items/anyOf/1", new(courier.JobDependency)}, {"job", "properties/outputs/items", new(courier.JobOutput)},
		{"chain", "", new(chain.Chain)}, {"chain", "properties/members/items", new(chain.Member)},
		{"chain", "properties/members/items/properties/depends_on/items/anyOf/1", new(chain.Dependency)},
		{"schedule", "", new(schedule.Schedule)}, {"monitor", "", new(monitor.Monitor)}, {"subscription", "", new(notify.Subscription)},
		{"subscription", "properties/webhook", new(notify.WebhookTarget)}, {"subscription", "properties/job", new(notify.JobTarget)},
		{"subscription", "properties/email", new(notify.EmailTarget)},
		{"expectation", "", new(expectation.Expectation)}, {"expectation", "properties/from", new(expectation.From)},
		{"expectation", "properties/window", new(expectation.Window)}, {"expectation", "properties/count", new(expectation.Count)},
		{"expectation", "properties/bytes", new(expectation.Bytes)},
		{"calendar", "", new(calendar.Calendar)}, {"monitor", "properties/between", new(monitor.Hours)},
	} {
		fill(reflect.ValueOf(c.v).Elem())
		text, err := json.Marshal(c.v)
		if err != nil {
			t.Fatal(err)
		}
		var written map[string]any
		if err := json.Unmarshal(text, &written); err != nil {
			t.Fatal(err)
		}
		var at any = newValidator(t, schemas()[c.kind]).Root
		for name := range strings.SplitSeq(c.path, "/") {
			switch x := at.(type) {
			case []any:
				at = x[1]
			case map[string]any:
				if name != "" {
					at = x[name]
				}
			}
		}
		properties := at.(map[string]any)["properties"].(map[string]any)
		if got, want := slices.Sorted(maps.Keys(properties)), slices.Sorted(maps.Keys(written)); !slices.Equal(got, want) {
			t.Errorf("%s %s has %v, the type %v", c.kind, c.path, got, want)
		}
	}
}

// valueOf finds the constants of the types of which schemas list the values.
var valueOf = regexp.MustCompile(`(?m)^\s*(?:const )?\w+ +(?:EventType|Policy|Overlap|OnClosed|Misfire|MonitorEvent|OnUnmet|RequiredStatus|Kind) += "(\w+)"`)

// TestConstants: each value of the types of definitions is in a schema.
func TestConstants(t *testing.T) {
	var all strings.Builder
	for _, text := range schemas() {
		all.Write(text)
	}
	files, err := filepath.Glob("../*.go")
	schedules, err2 := filepath.Glob("../schedule/*.go")
	subscriptions, err3 := filepath.Glob("../notify/*.go")
	if err := errors.Join(err, err2, err3); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range slices.Concat(files, schedules, subscriptions) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range valueOf.FindAllStringSubmatch(read(t, file), -1) {
			count++
			observed := m[1] == string(courier.EventJobLost) || m[1] == string(courier.EventStepProgress) // no subscription can have them
			if strings.Contains(all.String(), `"`+m[1]+`"`) == observed {
				t.Errorf("%s: %q is in no schema, or should be in none", file, m[1])
			}
		}
	}
	if count < 35 {
		t.Errorf("%d constants were found", count)
	}
}
