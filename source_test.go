package courier_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
)

// TestSourceTellsEverythingWithItsPlace reads definitions of each kind with several
// mistakes: each matches ErrInvalid, and has the line and column of its value.
func TestSourceTellsEverythingWithItsPlace(t *testing.T) {
	for _, c := range []struct {
		v    courier.Definition
		text string
		want []string
	}{
		{new(courier.Job), "{\n \"nmae\": 1,\n \"failure_policy\": {\"type\": \"retri_step\"},\n \"steps\": [{}, {\"type\": 5,\n\t\"id\": \"a\", \"id\": \"b\"}]}", []string{
			`line 2, column 10: unknown field "nmae"; did you mean "name"?`,
			`line 3, column 29: failure_policy.type: unknown policy "retri_step"`,
			`line 4, column 25: step 1: type: must be a string, not a JSON number`,
			`line 5, column 19: step 1: id: given twice`,
		}},
		{new(chain.Chain), "{\"members\": [{\"job\": \"é\", \"versoin\": 1}]}", []string{`line 1, column 38: members[0]: unknown field "versoin"; did you mean "version"?`}},
		{new(schedule.Schedule), "{\"at\": \"soon\",\n\"every_seconds\": -1}", []string{`line 1, column 8: at: must be an instant`, `line 2, column 18: every_seconds: -1 is negative`}},
		{new(monitor.Monitor), "{\"batch\": \"yes\"}", []string{`line 1, column 11: batch: must be true or false, not a JSON string`}},
		{new(notify.Subscription), "{\"webhook\": {\"ulr\": 1}}", []string{`line 1, column 21: webhook: unknown field "ulr"; did you mean "url"?`}},
		{new(courier.Job), "[]", []string{"line 1, column 1: must be an object"}},
	} {
		err := json.Unmarshal([]byte(c.text), c.v)
		bad, ok := errors.AsType[*courier.DefinitionError](err)
		if !ok || !errors.Is(err, courier.ErrInvalid) || len(bad.Problems) != len(c.want) {
			t.Errorf("%T: %v", c.v, err)
			continue
		}
		for i, want := range c.want {
			if got := bad.Problems[i].String(); !strings.HasPrefix(got, want) {
				t.Errorf("%T: problem %d is\n%s, want\n%s", c.v, i, got, want)
			}
		}
	}
}

// The error of a definition that can't be read names it, whatever it defines.
func TestReadErrorsNameTheDefinition(t *testing.T) {
	for _, v := range []courier.Definition{new(courier.Job), new(chain.Chain), new(schedule.Schedule), new(monitor.Monitor), new(notify.Subscription)} {
		err := json.Unmarshal([]byte(`{"surprise": 1, "name": "nightly"}`), v)
		if err == nil || !strings.HasPrefix(err.Error(), "read ") || !strings.Contains(err.Error(), ` "nightly": `) {
			t.Errorf("%T: %v", v, err)
		}
	}
}

// TestSources splits the text of a file, and counts lines from its beginning.
func TestSources(t *testing.T) {
	list, problems := (&courier.Source{File: "f.json", Text: []byte("\n[ {\"name\": \"a\"},\n  {\"name\":\n 5}]")}).Split()
	if len(list) != 2 || len(problems) > 0 {
		t.Fatal(list, problems)
	}
	var job courier.Job
	if p := list[0].Read(&job); len(p) > 0 || job.Name != "a" {
		t.Errorf("read %+v, %v", job, p)
	}
	if p := fmt.Sprint(list[1].Read(&job)); p != "[f.json:4:2: name: must be a string, not a JSON number]" {
		t.Error(p)
	}
	located := []courier.Problem{{Step: -1, Field: "name"}, {Step: 7, Field: "config.x[2]"}, {Step: -1, Field: `members[2] "a": params["b.c"]`}}
	list[1].Locate(located)
	if fmt.Sprint(located[0].Line, located[0].Column, located[1].Line, located[1].Column, located[2].Line) != "4 2 3 3 3" {
		t.Error(located)
	}
	long := `{"description": "` + strings.Repeat("é\n"+strings.Repeat("ü", 700), 10) + `", "x": 1}`
	long = strings.ReplaceAll(long, "\n", "\", \n\"y\": \"")
	for _, p := range (&courier.Source{Text: []byte(long), Line: 5, Column: 7}).Read(new(chain.Chain)) {
		at := strings.Split(long, "\n")[p.Line-5]
		if p.Line == 5 {
			at = "123456" + at
		}
		if rest := []rune(at)[p.Column-1:]; rest[0] != '"' && rest[0] != '1' {
			t.Errorf("%v is at %q", p, string(rest))
		}
	}
	for text, want := range map[string]string{
		"{\n \"name\": }":         "f.json:2:10: not JSON: invalid character '}'",
		"":                        "f.json:1:1: not JSON: unexpected end",
		"{\n\"name\": \"\xff\"}":  "f.json:2:10: contains text that is not valid UTF-8",
		"{\"name\": \"\\ud800\"}": "f.json:1:1: contains text that is not valid UTF-8, or half of a character",
	} {
		if _, p := (&courier.Source{File: "f.json", Text: []byte(text)}).Split(); len(p) != 1 || !strings.HasPrefix(p[0].String(), want) {
			t.Errorf("%q: %v, want %s", text, p, want)
		}
	}
}

// TestNullIsTheDefault reads null in every field of a definition.
func TestNullIsTheDefault(t *testing.T) {
	for v, text := range map[courier.Definition]string{
		new(courier.Job):         `{"name": null, "version": null, "failure_policy": null, "params": null, "queue": null, "limit": null, "limit_keys": null, "depends_on": null, "steps": null}`,
		new(chain.Chain):         `{"name": null, "params": null, "members": null}`,
		new(schedule.Schedule):   `{"cron": null, "every_seconds": null, "at": null, "starts_at": null, "window_seconds": null, "params": null}`,
		new(monitor.Monitor):     `{"path": null, "every_seconds": null, "events": null, "batch": null, "next_poll": null}`,
		new(notify.Subscription): `{"kind": null, "webhook": null, "job": null, "email": null, "window_seconds": null}`,
	} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}

func TestErrorfShowsNoKind(t *testing.T) {
	inner := errors.New("inner")
	err := fmt.Errorf("outer: %w", courier.Errorf(courier.ErrConflict, "somebody was faster: %w", inner))
	if err.Error() != "outer: somebody was faster: inner" || !errors.Is(err, courier.ErrConflict) || !errors.Is(err, inner) || errors.Is(err, courier.ErrInvalid) {
		t.Error(err)
	}
}

// TestPlacesCostNoMoreThanTheText has a long name above many values: the places of these
// must not each cost the name.
func TestPlacesCostNoMoreThanTheText(t *testing.T) {
	const kib = 1 << 10
	text := `{"steps": [{"config": {"` + strings.Repeat("k", 100*kib) + `": [` + strings.Repeat("0,", 20_000) + `0]}}], "bogus": 1}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list := (&courier.Source{Text: []byte(text)}).Read(new(courier.Job))
	runtime.ReadMemStats(&after)
	if len(list) != 1 || list[0].Column != len(text)-1 {
		t.Error(list)
	}
	if n := (after.TotalAlloc - before.TotalAlloc) / kib; n > 40*kib {
		t.Errorf("%d KiB for a text of %d KiB", n, len(text)/kib)
	}
}
