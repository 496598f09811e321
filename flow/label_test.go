package flow_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

func TestLabels(t *testing.T) {
	long := strings.Repeat("ü", 150)
	for _, c := range []struct {
		item  any
		label any
		want  string
	}{
		{m{"name": "a.csv", "path": "in/b.csv"}, nil, "a.csv"},
		{m{"name": "", "path": "in/b.csv"}, nil, "b.csv"},
		{m{"path": `C:\in\b.csv`}, nil, "b.csv"},
		{m{"path": "in/dir/"}, nil, "dir"},
		{m{"path": "/"}, nil, "0"},
		{m{"name": 7, "path": 8}, nil, "0"},
		{"in/c.csv", nil, "in/c.csv"},
		{"", nil, "0"},
		{json.Number("12.50"), nil, "12.50"},
		{true, nil, "0"},
		{nil, nil, "0"},
		{long, nil, long[:200]},
		{long + "x", "a" + "${context:loop.current_item}", "a" + long[:198]},
		{m{"of": "acme"}, "context:loop.current_item.of", "acme"},
		{m{"of": m{"a": []any{1}}}, "context:loop.current_item.of", `{"a":[1]}`},
		{m{"of": "acme"}, "${context:loop.index}: ${context:params.day}", "0: Monday"},
		{m{"of": "acme"}, "", "0"},
		{m{"of": "acme"}, "each", "each"},
	} {
		config := m{"source": []any{c.item}}
		if c.label != nil {
			config["label"] = c.label
		}
		tree := parse(t, with("flow.foreach", config), do("a.b"), end)
		w := walk(t, tree, courier.Position{}, values{"params.day": "Monday"})
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		got, err := w.Labels(nil)
		if err != nil || !slices.Equal(got, []string{c.want}) {
			t.Errorf("label %v of %v: %q, %v, want %q", c.label, c.item, got, err, c.want)
		}
		if v, ok := w.Value("loop", "label"); !ok || v != c.want {
			t.Errorf("label %v of %v: loop.label is %q, %t, want %q", c.label, c.item, v, ok, c.want)
		}
	}
}

// A label is cut when what must not be shown has been taken out of it, and the index takes
// the place of one that can't be made.
func TestLabelsOfNestedLoops(t *testing.T) {
	tree := parse(t,
		with("flow.foreach", m{"source": []any{m{"of": "acme"}}, "label": "context:loop.current_item.no"}),
		with("flow.foreach", m{"source": []any{"a", strings.Repeat("s", 190) + "secret of x"}, "label": "${context:loop.current_item} of ${context:loop.0.current_item.of}"}),
		do("a.b"), end, end,
	)
	w := walk(t, tree, courier.Position{}, values{})
	if got, err := w.Labels(nil); got != nil || err != nil {
		t.Errorf("outside loops: %q, %v", got, err)
	}
	for range 2 {
		if _, err := w.Next(); err != nil {
			t.Fatal(err)
		}
		w.Advance()
	}
	got, err := w.Labels(func(s string) string { return strings.ReplaceAll(s, "secret", "*") })
	if want := []string{"0", strings.Repeat("s", 190) + "* of x of "}; !slices.Equal(got, want) {
		t.Errorf("the labels are %q, want %q", got, want)
	}
	const want = `flow.foreach: label: "loop.current_item.no" has no value: current_item has no .no; the item is named by its index`
	if e, ok := errors.AsType[*flow.EvalError](err); !ok || e.Step != 0 || !strings.Contains(err.Error(), "the item is named by its index") {
		t.Errorf("the error is %v, want %s", err, want)
	}
	if label, index := tree.NameOf(1, got, []int{0, 1}); label != got[1] || index != 1 {
		t.Errorf("NameOf: %q, %d", label, index)
	}
	if label, index := tree.NameOf(0, nil, []int{0, 1}); label != "" || index != 0 {
		t.Errorf("NameOf without labels: %q, %d", label, index)
	}
}

func TestLabelProblems(t *testing.T) {
	for _, c := range []struct {
		label any
		want  string
	}{
		{7, `must be a text, such as "${context:loop.current_item.path}"`},
		{[]any{"loop"}, `must be a text, such as "${context:loop.current_item.path}"`},
		{"context:list.file_count", `"list.file_count" can't be used in a label; use loop.current_item, loop.index or params.*`},
		{"context:job.name", `"job.name" can't be used in a label; use loop.current_item, loop.index or params.*`},
		{"context:loop.label", `"loop.label" is made of the label itself; use loop.current_item or loop.index`},
		{"context:loop.indx", `"loop.indx" has no value: a loop has no "indx"; did you mean "index"?`},
		{"context:loop.current_item.nam", `"loop.current_item.nam" has no value: current_item has no .nam; did you mean "name"?`},
		{"context:params.dya", `"params.dya" has no value: the job declares no param "dya"; did you mean "day"?`},
		{"context:params.key", `"params.key" is a secret, which can only be the whole value of a field of a step, as "context:params.key"`},
		{"secret:x", ""},
		{"${context:loop.current_item.size} of ${context:params.day}", "none"},
		{nil, "none"},
	} {
		job := &courier.Job{Name: "a", Params: m{"day": nil, "key": m{"type": "text", "secret": true}}, Steps: []courier.StepSpec{
			named("list", list()),
			with("flow.foreach", m{"source": "context:list.file_list", "label": c.label}), do("a.b"), end,
		}}
		tree, _ := flow.Parse(job.Steps)
		problems, _ := flow.Check(tree, job, registry())
		var got []string
		for _, p := range problems {
			if p.Step == 1 {
				got = append(got, p.Message)
			}
		}
		switch {
		case c.want == "none":
			if got != nil {
				t.Errorf("label %v: %q", c.label, got)
			}
		case c.want == "" && len(got) == 0, c.want != "" && !slices.Equal(got, []string{c.want}):
			t.Errorf("label %v: %q, want %q", c.label, got, c.want)
		}
	}
}
