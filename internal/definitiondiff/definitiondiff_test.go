package definitiondiff_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/internal/definitiondiff"
)

func TestDiff(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"the same", `{"name": "j", "version": 1, "steps": [{"id": "a", "type": "t"}]}`, `{"name": "j", "version": 2, "steps": [{"id": "a", "type": "t"}]}`, ""},
		{"fields of the job",
			`{"queue": "a", "params": {"x": 1, "z/y": [1]}, "limit": 3, "steps": []}`, `{"queue": "b", "params": {"x": 1.0, "z/y": [1, 2]}, "result": null, "steps": []}`,
			`/limit 3>; /params/x 1>1.0; /params/z~1y [1]>[1,2]; /queue "a">"b"; /result >null`},
		{"a step is added before others", `{"steps": [{"id": "a", "type": "t"}, {"id": "b", "type": "t"}]}`,
			`{"steps": [{"id": "n", "type": "u"}, {"id": "a", "type": "t"}, {"id": "b", "type": "t"}]}`, "added nu>0"},
		{"one is removed, one changed", `{"steps": [{"id": "a", "type": "t"}, {"id": "b", "type": "t", "config": {"p": {"q": 1}}}]}`,
			`{"steps": [{"id": "b", "type": "u", "config": {"p": {"q": 2}}}]}`, `changed bu 1>0 /config/p/q 1>2 /type "t">"u"; removed at 0`},
		{"one is moved and changed", `{"steps": [{"id": "a", "type": "t"}, {"id": "b", "type": "t"}, {"id": "c", "type": "t"}]}`,
			`{"steps": [{"id": "b", "type": "t"}, {"id": "c", "type": "t"}, {"id": "a", "type": "t", "name": "n"}]}`, `moved at 0>2 /name >"n"`},
		{"a block is put around steps without ids", `{"steps": [{"type": "a"}, {"type": "flow.if", "config": {"x": 1}}, {"type": "b"}, {"type": "flow.end"}]}`,
			`{"steps": [{"type": "flow.if", "config": {"x": 2}}, {"type": "c"}, {"type": "flow.end"}, {"type": "a"}, {"type": "flow.if", "config": {"x": 1}}, {"type": "b"}, {"type": "flow.end"}]}`,
			"added flow.if>0; added c>1; added flow.end>2"},
		{"one without id is changed between others", `{"steps": [{"id": "a", "type": "t"}, {"type": "u", "config": {"x": 1}}, {"type": "u", "config": {"x": 5}}, {"id": "b", "type": "t"}]}`,
			`{"steps": [{"id": "a", "type": "t"}, {"type": "v"}, {"type": "u", "config": {"x": 2}}, {"type": "u", "config": {"x": 5}}, {"id": "b", "type": "t"}]}`,
			"added v>1; changed u 1>2 /config/x 1>2"},
		{"one gets an id", `{"steps": [{"type": "t"}]}`, `{"steps": [{"id": "a", "type": "t"}]}`, "added at>0; removed t 0"},
		{"members", `{"members": [{"job": "a"}, {"name": "x", "job": "b"}]}`, `{"members": [{"job": "a", "version": 2}, {"name": "y", "job": "b"}]}`,
			"changed a 0>0 /version >2; added y>1; removed x 1"},
		{"nothing to something", `{}`, `{"steps": [{"type": "t"}]}`, "added t>0"},
	} {
		d := definitiondiff.Of([]byte(c.from), []byte(c.to))
		if got := d.String(); got != c.want {
			t.Errorf("%s: got\n%s, want\n%s", c.name, got, c.want)
		}
		back := definitiondiff.Of([]byte(c.to), []byte(c.from))
		if a, b := strings.Count(d.String(), "added"), strings.Count(back.String(), "removed"); a != b {
			t.Errorf("%s: %d added, and %d removed the other way round: %s", c.name, a, b, back.String())
		}
	}
}

// Each step of both versions is told of at most once, whatever was done to the list, and
// equal lists have no difference.
func TestDiffRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	random := func() string {
		var steps []string
		ids := r.Perm(8)
		for i := range r.IntN(8) {
			step := fmt.Sprintf(`{"type": "t%d", "config": {"x": %d}`, r.IntN(3), r.IntN(2))
			if r.IntN(2) == 0 {
				step += fmt.Sprintf(`, "id": "s%d"`, ids[i])
			}
			steps = append(steps, step+"}")
		}
		return `{"steps": [` + strings.Join(steps, ", ") + `]}`
	}
	for range 500 {
		a, b := random(), random()
		if same := definitiondiff.Of([]byte(a), []byte(a)); len(same.Steps) > 0 {
			t.Fatalf("%s differs from itself: %s", a, same.String())
		}
		d := definitiondiff.Of([]byte(a), []byte(b))
		from, to, grows := map[int]bool{}, map[int]bool{}, 0
		for _, p := range d.Steps {
			if p.From != nil && from[*p.From] || p.To != nil && to[*p.To] {
				t.Fatalf("%s to %s: twice in %s", a, b, d.String())
			}
			if p.From != nil {
				from[*p.From] = true
				grows--
			}
			if p.To != nil {
				to[*p.To] = true
				grows++
			}
		}
		if n := strings.Count(b, "type") - strings.Count(a, "type"); n != grows {
			t.Fatalf("%s to %s: %s", a, b, d.String())
		}
	}
}

// Large definitions are compared in time.
func TestDiffLarge(t *testing.T) {
	list := func(n int, odd string) []byte {
		var b strings.Builder
		b.WriteString(`{"steps": [{"type": "x"}`)
		for i := range n {
			fmt.Fprintf(&b, `, {"id": "s%d", "type": "t"}, {"type": "%s%d"}`, (i*7919)%n, odd, i)
		}
		b.WriteString("]}")
		return []byte(b.String())
	}
	start := time.Now()
	d := definitiondiff.Of(list(5_000, "a"), list(5_000, "b"))
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	if len(d.Steps) != 10_000 {
		t.Errorf("%d differences", len(d.Steps))
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}
