package chain_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/store"
)

// TestDefineFindsAllProblems shows what is said about chains that can't run, and that none of
// them is saved.
func TestDefineFindsAllProblems(t *testing.T) {
	w := newWorld(t)
	w.add(`{"name": "declares", "params": {"day": null}, "steps": [{"type": "demo.do"}]}`)
	w.add(`{"name": "requires", "params": {"day": {"type": "text", "required": true}, "n": {"type": "integer", "max": 5}}, "steps": [{"type": "demo.do"}]}`)
	w.add(`{"name": "reads", "steps": [{"id": "r", "type": "demo.take", "config": {"text": "context:chain.a.txet"}},
		{"type": "demo.take", "config": {"text": "${context:chain.b.text}"}}, {"type": "demo.take", "config": {"text": "context:chain.nobody.text"}}]}`)
	for text, want := range map[string][]string{
		`{"members": []}`: {"name: is required", "members: there are none"},
		`{"name": "c", "members": [{"job": "aa"}]}`: {
			`members[0] "aa": job: there is no job "aa" version 0`,
		},
		`{"name": "c", "members": [{"job": "a"}, {"job": "a"}, {"name": "Upper", "job": "a"}, {"job": "a", "name": "x", "version": 7}, {"name": "y"}]}`: {
			`members[1] "a": name: is that of members[0] too`, `members[2] "Upper": name: it must be a small letter`,
			`members[3] "x": job: there is no job "a" version 7`, `members[4] "y": job: is required`,
		},
		`{"name": "c", "members": [{"job": "a", "depends_on": ["a"]}, {"job": "b", "depends_on": ["aa", {"member": "a", "required_status": "complete"}, "a"]}]}`: {
			`members[0] "a": depends_on[0].member: a member can't depend on itself`,
			`members[1] "b": depends_on[0].member: the chain has no member "aa"; did you mean "a"?`,
			`members[1] "b": depends_on[1].required_status: unknown status "complete"; did you mean "completed"?`,
			`members[1] "b": depends_on[2].member: "a" is given twice`,
		},
		`{"name": "c", "members": [{"job": "a", "depends_on": ["c"]}, {"job": "b", "depends_on": ["a"]}, {"job": "c", "depends_on": ["b"]}]}`: {
			"members: depend on each other in a cycle: a -> c -> b -> a; each waits for the next, and there is no member that depends on none",
		},
		`{"name": "c", "members": [{"job": "d"}, {"job": "a", "depends_on": ["b", "d"]}, {"job": "b", "depends_on": ["a"]}]}`: {
			"members: depend on each other in a cycle: a -> b -> a; each waits for the next",
		},
		`{"name": "c", "params": {"day": 1}, "members": [{"job": "declares", "params": {"dya": 1, "day": "context:params.dya"}},
			{"job": "a", "params": {"x": "secret:pw", "y": "context:a.text"}}]}`: {
			`members[0] "declares": params.day: "params.dya" has no value: the chain declares no param "dya"; did you mean "day"?`,
			`members[0] "declares": params.dya: job "declares" declares no such param; did you mean "day"?`,
			`members[1] "a": params: secrets can't be params`, `members[1] "a": params.y: "a.text" has no value here`,
		},
		`{"name": "c", "members": [{"job": "a"}, {"job": "b"}, {"job": "reads", "depends_on": ["a"]}]}`: {
			`members[2] "reads": job "reads", step 0 "r" (demo.take): config.text: "chain.a.txet" has no value: no step of job "a" has an output "txet"; did you mean "text"?`,
			`members[2] "reads": job "reads", step 1 (demo.take): config.text: "chain.b.text" has no value: "b" does not end before "reads"; add it to depends_on`,
			`members[2] "reads": job "reads", step 2 (demo.take): config.text: "chain.nobody.text" has no value: the chain has no member "nobody"`,
		},
		`{"name": "c", "params": {"t": {"type": "text"}}, "members": [{"job": "requires", "params": {"n": 6}},
			{"name": "x", "job": "requires", "params": {"day": "context:params.t", "n": "context:params.t"}}]}`: {
			`members[0] "requires": params.day: job "requires" requires it: give it, or declare it in the chain`,
			`members[0] "requires": params.n: must be at most 5, not 6`,
			`members[1] "x": params.n: "params.t" is a text, and must be a whole number here`,
		},
	} {
		_, err := w.Define(t.Context(), read(t, text), nil)
		d, ok := errors.AsType[*chain.Error](err)
		if !ok || !errors.Is(err, courier.ErrInvalid) {
			t.Errorf("%s: error %v", text, err)
			continue
		}
		for _, line := range want {
			found := false
			for _, p := range d.Problems {
				found = found || strings.HasPrefix(p.String(), line)
			}
			if !found {
				t.Errorf("%s:\n%v\nlacks %q", text, err, line)
			}
		}
		if len(d.Problems) != len(want) {
			t.Errorf("%s: %d problems, want %d:\n%v", text, len(d.Problems), len(want), err)
		}
	}
	if list, err := w.store.List(t.Context(), store.DefinitionFilter{Kind: store.Chain}); err != nil || len(list) > 0 {
		t.Errorf("saved %v, %v", list, err)
	}
}

// TestBefore has the members that have ended when one with a job begins, also of chains with
// problems.
func TestBefore(t *testing.T) {
	for text, want := range map[string]string{
		`{"members": [{"job": "a"}, {"job": "b", "depends_on": ["a"]}, {"name": "x", "job": "c", "depends_on": ["b"]}, {"job": "d"}]}`: "a b",
		`{"members": [{"job": "a"}, {"name": "x", "job": "c"}, {"name": "y", "job": "c", "depends_on": ["a", "nobody"]}]}`:             "a",
		`{"members": [{"job": "c"}]}`: "",
		`{"members": [{"job": "a", "depends_on": ["c"]}, {"job": "c", "depends_on": ["a"]}]}`: "a c",
	} {
		c := read(t, text)
		var got []string
		for _, name := range strings.Fields("a b c d x y nobody") {
			if c.Before("c")[name] {
				got = append(got, name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		if c.Members[0].Name != "" {
			t.Errorf("%s: the chain was changed", text)
		}
	}
}
