package chain_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
)

func TestJSON(t *testing.T) {
	const text = `{"name": "c", "description": "d", "params": {"n": 1.10}, "members": [
		{"job": "a"}, {"name": "b", "job": "a", "version": 2, "priority": -1, "params": {"x": "context:params.n"},
		"depends_on": ["a", {"member": "z", "run_on_failure": true, "required_status": "any"}]}]}`
	var c chain.Chain
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	want := chain.Chain{
		Name: "c", Description: "d", Params: map[string]any{"n": json.Number("1.10")},
		Members: []chain.Member{
			{Job: "a"},
			{
				Name: "b", Job: "a", Version: 2, Priority: -1, Params: map[string]any{"x": "context:params.n"},
				DependsOn: []chain.Dependency{{Member: "a"}, {Member: "z", RunOnFailure: true, RequiredStatus: courier.RequireAny}},
			},
		},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read %+v", c)
	}
	raw, err := json.Marshal(c)
	var again chain.Chain
	if err == nil {
		err = json.Unmarshal(raw, &again)
	}
	if err != nil || !reflect.DeepEqual(again, c) {
		t.Errorf("written and read again %+v, %v", again, err)
	}
}

func TestJSONReportsAllMistakes(t *testing.T) {
	var c chain.Chain
	err := json.Unmarshal([]byte(`{"nmae": "c", "members": [{"jbo": "a"}, {"job": 1, "depends_on": [{"membre": "a"}, 7]}, {"depends_on": "a"}], "members": []}`), &c)
	for _, want := range []string{
		`unknown field "nmae"; did you mean "name"?`, `members[0]: unknown field "jbo"; did you mean "job"?`, `job: must be a string`,
		`depends_on[0]: unknown field "membre"; did you mean "member"?`, `depends_on[1]: must be an object`, `depends_on: must be a list`, `members: given twice`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\nlacks %q", err, want)
		}
	}
}

// The error of a text names the chain, if that can be read.
func TestReadErrorNamesTheChain(t *testing.T) {
	err := json.Unmarshal([]byte(`{"name": "nightly", "members": [{"job": "a", "jbo": "b"}]}`), new(chain.Chain))
	if err == nil || !strings.HasPrefix(err.Error(), `read chain "nightly": `) {
		t.Errorf("error %v", err)
	}
}

func FuzzChain(f *testing.F) {
	for _, text := range []string{
		`{"name": "c", "members": [{"job": "a"}, {"job": "b", "depends_on": ["a", {"member": "x", "required_status": "any"}]}]}`,
		`{"members": [{"depends_on": [""]}, null, 5]}`, `{"members": null}`, `[`, `{"members": [{"depends_on": [`, `{"params": {"a": 1e999}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c, again chain.Chain
		if json.Unmarshal(text, &c) != nil {
			return
		}
		raw, err := jsontext.Append(nil, c)
		if err != nil {
			return // text that can't be stored
		}
		if err := json.Unmarshal(raw, &again); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if twice, err := jsontext.Append(nil, again); err != nil || string(twice) != string(raw) {
			t.Errorf("%s\n%s, %v", raw, twice, err)
		}
	})
}

func TestExecutionErr(t *testing.T) {
	for _, c := range []struct {
		x    chain.Execution
		want string
	}{
		{chain.Execution{State: chain.Completed}, ""},
		{chain.Execution{State: chain.Running}, ""},
		{chain.Execution{State: chain.Cancelled}, "courier: cancelled"},
		{chain.Execution{State: chain.Failed, Chain: "c"}, `chain "c" failed`},
		{chain.Execution{State: chain.Failed, Chain: "c", Failure: &chain.Failure{Member: "m", Message: "boom"}}, `chain "c": member "m": boom`},
	} {
		got := ""
		if err := c.x.Err(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.x, got, c.want)
		}
	}
	err := &chain.RequestError{Chain: "x", State: chain.Running, Pending: courier.RequestCancel, Kind: courier.RequestPause}
	if want := "pause: chain execution x is running with a pending cancel; it will be cancelled as soon as no member runs; nothing was changed"; err.Error() != want {
		t.Errorf("%q", err.Error())
	}
	if !errors.Is(err, courier.ErrConflict) {
		t.Error("it is no conflict")
	}
}
