package flow_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

type m = map[string]any

func do(typ string) courier.StepSpec { return courier.StepSpec{Type: typ} }

func with(typ string, config m) courier.StepSpec { return courier.StepSpec{Type: typ, Config: config} }

func forEach(source any) courier.StepSpec { return with("flow.foreach", m{"source": source}) }

func when(left any, operator string, right any) courier.StepSpec {
	return with("flow.if", m{"left": left, "operator": operator, "right": right})
}

func named(id string, s courier.StepSpec) courier.StepSpec {
	s.ID = id
	return s
}

var (
	otherwise = do("flow.else")
	end       = do("flow.end")
)

func parse(t testing.TB, steps ...courier.StepSpec) *flow.Tree {
	t.Helper()
	tree, err := flow.Parse(steps)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// spec is a job with a loop, branches and steps behind them.
var spec = []courier.StepSpec{
	with("sftp.list", m{"connection_id": "c1", "remote_path": "/incoming"}),
	forEach("context:0.file_list"),
	with("sftp.download", m{"connection_id": "c1", "remote_path": "context:loop.current_item.name"}),
	when("context:loop.current_item.size", "greater_than", "1048576"),
	with("pgp.encrypt", m{"source_path": "context:2.downloaded_file", "recipient_key_ids": []any{"k1"}}),
	otherwise,
	with("file.copy", m{"source_path": "context:2.downloaded_file", "destination_path": "/archive/"}),
	end,
	end,
	with("file.delete", m{"path": "/staging/*"}),
}

func TestSpecTree(t *testing.T) {
	const want = `Root (Sequence)
├── StepNode(sftp.list)
├── ForEachNode(flow.foreach)
│   └── Body:
│       ├── StepNode(sftp.download)
│       └── IfElseNode(flow.if)
│           ├── Then: StepNode(pgp.encrypt)
│           └── Else: StepNode(file.copy)
└── StepNode(file.delete)
`
	if got := parse(t, spec...).String(); got != want {
		t.Errorf("String() =\n%s\nwant\n%s", got, want)
	}
}

func TestTrees(t *testing.T) {
	files, err := filepath.Glob("testdata/*.tree")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			list, want, _ := strings.Cut(string(raw), "---\n")
			var steps []courier.StepSpec
			for line := range strings.Lines(list) {
				steps = append(steps, specOf(strings.TrimSpace(line)))
			}
			if got := parse(t, steps...).String(); got != want {
				t.Errorf("String() =\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// specOf makes a step of a line: a type, and an id and a name if given.
func specOf(line string) courier.StepSpec {
	typ, rest, _ := strings.Cut(line, " ")
	id, name, _ := strings.Cut(rest, " ")
	s := courier.StepSpec{Type: typ, ID: id, Name: name}
	switch strings.ToLower(typ) {
	case "flow.foreach":
		s.Config = m{"source": []any{"x"}}
	case "flow.if":
		s.Config = m{"left": "x", "operator": "exists"}
	}
	return s
}

func TestNodes(t *testing.T) {
	tree := parse(t, spec...)
	if n := len(tree.Root().Nodes); n != 3 {
		t.Fatalf("the root has %d nodes, want 3", n)
	}
	loop := tree.Root().Nodes[1].(*flow.ForEach)
	branch := loop.Body.Nodes[1].(*flow.If)
	then := branch.Then.Nodes[0].(*flow.Step)
	got := []int{tree.Root().Nodes[0].Index(), loop.Index(), loop.End, branch.Index(), branch.End, then.Index(), branch.Else.Nodes[0].Index()}
	if want := []int{0, 1, 8, 3, 7, 4, 6}; !slices.Equal(got, want) {
		t.Errorf("indexes = %v, want %v", got, want)
	}
	if loop.Spec != tree.Spec(1) || branch.Spec != tree.Spec(3) || then.Spec != tree.Spec(4) || tree.Len() != len(spec) {
		t.Error("the nodes' specs are not those of the list")
	}
	for i := range spec {
		if got, want := tree.Works(i), !strings.HasPrefix(spec[i].Type, "flow."); got != want {
			t.Errorf("Works(%d) = %t, want %t", i, got, want)
		}
	}
}

func TestLoops(t *testing.T) {
	tree := parse(t,
		forEach("[1]"), // 0
		do("a.b"),      // 1
		when(1, "exists", nil),
		forEach("[1]"), // 3
		do("a.b"),
		end, // 5
		otherwise,
		do("a.b"),
		end,
		end, // 9
		do("a.b"),
	)
	want := [][]int{nil, {0}, {0}, {0}, {0, 3}, {0, 3}, {0}, {0}, {0}, {0}, nil, nil}
	for i, w := range want {
		if got := tree.Loops(i); !slices.Equal(got, w) {
			t.Errorf("Loops(%d) = %v, want %v", i, got, w)
		}
	}
	if tree.Loops(-1) != nil {
		t.Error("Loops(-1) is not nil")
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range tree.Len() {
				_, _ = tree.Loops(i), tree.Template(i)
			}
			tree.Head("x")
		})
	}
	wg.Wait()
}

func TestHead(t *testing.T) {
	tree := parse(t, named("get", do("a.b")), do("a.b"), named("get", do("a.b")))
	for _, c := range []struct {
		head string
		want int
		ok   bool
	}{{"get", 0, true}, {"1", 1, true}, {"2", 2, true}, {"3", 3, false}, {"01", 0, false}, {"", 0, false}, {"-1", 0, false}, {"nope", 0, false}, {"1234567890", 0, false}} {
		if got, ok := tree.Head(c.head); ok != c.ok || ok && got != c.want {
			t.Errorf("Head(%q) = %d, %t, want %d, %t", c.head, got, ok, c.want, c.ok)
		}
	}
}

func TestParseErrors(t *testing.T) {
	deepIf := []courier.StepSpec{when(1, "equals", 1), otherwise, do("a.b"), otherwise, end}
	for _, c := range []struct {
		name  string
		steps []courier.StepSpec
		want  []string
	}{
		{"stray end", []courier.StepSpec{do("a.b"), end}, []string{`step 1 (flow.end): closes nothing`}},
		{"stray else", []courier.StepSpec{otherwise}, []string{`step 0 (flow.else): stands outside a flow.if`}},
		{"else in foreach", []courier.StepSpec{when(1, "exists", nil), forEach("[]"), otherwise, end, end},
			[]string{`step 2 (flow.else): stands directly inside the flow.foreach of step 1`}},
		{"second else", deepIf, []string{`step 3 (flow.else): is the second flow.else of the flow.if of step 0, which has one at step 1`}},
		{"missing ends", []courier.StepSpec{do("a.b"), named("each", forEach("[]")), when(1, "exists", nil), do("a.b")},
			[]string{`step 1 "each" (flow.foreach): no flow.end closes it`, `step 2 (flow.if): no flow.end closes it`}},
		{"unknown marker", []courier.StepSpec{do("flow.elseif"), do("FLOW.loop")},
			[]string{`step 0 (flow.elseif): type: unknown marker "flow.elseif"; did you mean "flow.else"?`, `step 1 (FLOW.loop): type: unknown marker "FLOW.loop"; `}},
		{"end with a configuration", []courier.StepSpec{forEach("[]"), with("flow.end", m{"of": 1})}, []string{`step 1 (flow.end): config: unknown field "of"; a flow.end has no configuration`}},
		{"foreach without a source", []courier.StepSpec{with("flow.foreach", m{"sorce": "[]"}), end},
			[]string{`step 0 (flow.foreach): config: unknown field "sorce"; did you mean "source"?`, `config.source: is required`}},
		{"foreach over no list", []courier.StepSpec{forEach("x"), end, forEach(1), end, forEach(m{}), end, forEach(nil), end, forEach(true), end, forEach("[1"), end},
			[]string{`is the text "x", not a list`, `is the number 1, not a list`, `is an object, not a list`, `is null, not a list`, `is true, not a list`, `is text that is not the JSON of a list: `}},
		{"on_resume", []courier.StepSpec{with("flow.foreach", m{"source": "[]", "on_resume": "again"}), end, with("flow.foreach", m{"source": "[]", "on_resume": 1}), end},
			[]string{`step 0 (flow.foreach): config.on_resume: must be "continue", which is the default, or "restart"`, `step 2 (flow.foreach): config.on_resume: `}},
		{"if without anything", []courier.StepSpec{do("flow.if"), end}, []string{`config.left: is required`, `config.operator: is required: one of equals, `}},
		{"if without right", []courier.StepSpec{with("flow.if", m{"left": 1, "operator": "equals"}), end}, []string{`config.right: is required`}},
		{"operator", []courier.StepSpec{when(1, "equal", 1), end, when(1, "context:0.op", 1), end, with("flow.if", m{"left": 1, "operator": 5}), end},
			[]string{`config.operator: unknown operator "equal"; did you mean "equals"?`, `config.operator: can't be a reference`, `config.operator: must be one of`}},
		{"long names", []courier.StepSpec{when(1, strings.Repeat("é", 50), 1), end}, []string{`unknown operator "` + strings.Repeat("é", 30) + `..."; known are equals`}},
		{"regex", []courier.StepSpec{when("a", "regex", "(a"), end, when("a", "regex", strings.Repeat("a", 1025)), end, when("a", "regex", "a{1001}"), end},
			[]string{"config.right: is not a valid regular expression: missing closing ): `(a`", `config.right: is 1025 bytes long; a regular expression has 1024 at most`, `invalid repeat count`}},
		{"references", []courier.StepSpec{when("context:0", "equals", "${context:}"), end, forEach("secret:x"), end},
			[]string{`config.left: reference "0": must be <step>.<name>`, `config.right: reference "}"`, `config: secret "x": a secret can't be used here`}},
		{"unencodable", []courier.StepSpec{when(func() {}, "exists", nil), end}, []string{`config.left: json: unsupported type: func()`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, err := flow.Parse(c.steps)
			var pe *flow.ParseError
			if !errors.As(err, &pe) || tree != nil || !errors.Is(err, courier.ErrInvalid) || errors.Is(err, courier.ErrNotFound) {
				t.Fatalf("Parse() = %v, %v, want a *ParseError", tree, err)
			}
			text := err.Error()
			for _, w := range c.want {
				if !strings.Contains(text, w) {
					t.Errorf("the error lacks %q:\n%s", w, text)
				}
			}
			if len(pe.Problems) != len(c.want) {
				t.Errorf("there are %d problems, want %d:\n%s", len(pe.Problems), len(c.want), text)
			}
			if !slices.IsSortedFunc(pe.Problems, func(a, b courier.Problem) int { return a.Step - b.Step }) {
				t.Errorf("the problems are not in the order of the steps: %v", pe.Problems)
			}
		})
	}
}

func TestParseErrorIsBounded(t *testing.T) {
	steps := slices.Repeat([]courier.StepSpec{end}, 100_000)
	_, err := flow.Parse(steps)
	var pe *flow.ParseError
	if !errors.As(err, &pe) || len(pe.Problems) != 1001 {
		t.Fatalf("there are %d problems, want 1001", len(pe.Problems))
	}
	if text := err.Error(); !strings.HasSuffix(text, "and 981 more") || len(text) > 4000 {
		t.Errorf("the error is %q", text)
	}
	if last := pe.Problems[1000]; last.Step != -1 || last.Message != "there are more; these are the first 1000" {
		t.Errorf("the last problem is %v", last)
	}
}

func TestParseSharesNoList(t *testing.T) {
	steps := []courier.StepSpec{do("a.b"), do("a.c")}
	tree := parse(t, steps...)
	steps[0].Type = "changed"
	if got := tree.Spec(0).Type; got != "a.b" {
		t.Errorf("Spec(0).Type = %q after the caller changed its list", got)
	}
}

// nest returns n blocks in each other with a step in the middle.
func nest(n int, open courier.StepSpec) []courier.StepSpec {
	steps := slices.Repeat([]courier.StepSpec{open}, n)
	steps = append(steps, do("a.b"))
	return append(steps, slices.Repeat([]courier.StepSpec{end}, n)...)
}

func TestDeepNesting(t *testing.T) {
	for _, open := range []courier.StepSpec{forEach("[1]"), when(1, "exists", nil)} {
		for _, n := range []int{1000, 50_000} {
			tree := parse(t, nest(n, open)...)
			if s := tree.String(); len(s) > 1<<16 {
				t.Errorf("%d blocks make a drawing of %d bytes", n, len(s))
			}
			w, err := tree.Walk(courier.Position{}, values{})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := w.Next(); got != n || err != nil {
				t.Errorf("Next() = %d, %v, want %d", got, err, n)
			}
			if problems, _ := flow.Check(tree, &courier.Job{Name: "x"}, registry()); len(problems) != 1 {
				t.Errorf("Check() = %v", problems)
			}
			if n > 1000 {
				continue
			}
			if p := w.Position(); len(p.Loops) != len(tree.Loops(n)) {
				t.Errorf("%d loops are open, want %d", len(p.Loops), len(tree.Loops(n)))
			} else if _, err := tree.Walk(p, values{}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestResume(t *testing.T) {
	restart := func(on any) courier.StepSpec {
		return with("flow.foreach", m{"source": "[1,2,3]", "on_resume": on})
	}
	tree := parse(t, restart("continue"), restart("restart"), restart("restart"), do("a.b"), end, end, end)
	at := func(step int, loops ...int) courier.Position {
		p := courier.Position{Step: step}
		for i, n := range loops {
			p.Loops = append(p.Loops, courier.LoopPosition{Step: i, Index: n})
		}
		return p
	}
	for _, c := range []struct{ p, want courier.Position }{
		{at(3, 2, 1, 1), at(1, 2)},
		{at(4, 2, 1, 1), at(1, 2)},
		{at(2, 1, 2), at(1, 1)},
		{at(1, 1), at(1, 1)},
		{at(0), at(0)},
		{at(7), at(7)},
		{courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 99}}}, courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 99}}}},
	} {
		if got := tree.Resume(c.p); !got.Equal(c.want) {
			t.Errorf("Resume(%v) = %v, want %v", c.p, got, c.want)
		}
	}
}

func TestInScope(t *testing.T) {
	tree := parse(t,
		do("a.a"),          // 0
		forEach("[1,2,3]"), // 1
		do("a.b"),          // 2
		forEach("[1,2]"),   // 3
		do("a.c"),          // 4
		end,                // 5
		do("a.d"),          // 6
		end,                // 7
		do("a.e"),          // 8
	)
	in := func(step int, loops ...int) courier.Position {
		p := courier.Position{Step: step}
		for i, n := range loops {
			p.Loops = append(p.Loops, courier.LoopPosition{Step: []int{1, 3}[i], Index: n})
		}
		return p
	}
	record := func(step int, of ...int) *courier.StepExecution {
		return &courier.StepExecution{Step: step, Iteration: of, Total: []int{3, 2}[:len(of)]}
	}
	for _, c := range []struct {
		p    courier.Position
		s    *courier.StepExecution
		want bool
	}{
		{in(8), record(0), true},
		{in(0), record(0), false},
		{in(6, 1), record(2, 1), true},
		{in(6, 1), record(2, 0), false}, // an earlier iteration
		{in(2, 1), record(4, 0, 1), false},
		{in(6, 1), record(4, 1, 1), true},  // the inner loop is over
		{in(6, 1), record(4, 1, 0), false}, // its last iteration took another branch
		{in(4, 1, 1), record(4, 1, 0), false},
		{in(5, 1, 1), record(4, 1, 1), true},
		{in(5, 1, 1), record(4, 1, 0), false},
		{in(8), record(4, 2, 1), true},
		{in(8), record(2, 1), false},
		{in(8), record(2), false},
		{in(8), &courier.StepExecution{Step: 2, Iteration: []int{1}}, true}, // not told how many there are
		{in(8), record(99), false},
		{in(8), record(-1), false},
	} {
		if got := tree.InScope(c.p, c.s); got != c.want {
			t.Errorf("InScope(%v, step %d %v) = %t, want %t", c.p, c.s.Step, c.s.Iteration, got, c.want)
		}
	}
}

func TestTemplateOfATree(t *testing.T) {
	tree := parse(t, do("a.b"), with("a.b", m{"path": "context:0"}), with("a.b", m{"path": "/x"}))
	if first := tree.Template(2); first != tree.Template(2) {
		t.Error("Template compiles each time")
	}
	got, err := tree.Template(0).Render(nil, courier.Values{}, nil)
	if string(got) != "{}" || err != nil {
		t.Errorf("Render() = %s, %v, want {}", got, err)
	}
	if _, err := tree.Template(1).Render(nil, courier.Values{}, nil); err == nil || !strings.HasPrefix(err.Error(), "config.path: reference ") {
		t.Errorf("Render() of a bad reference = %v", err)
	}
}

// values is the simplest store of values for walks.
type values courier.Values

func (v values) Value(head, name string) (any, bool) {
	if _, null := v[head+".*"]; null {
		return nil, true
	}
	return courier.Values(v).Value(head, name)
}
func (v values) Keys() []string { return courier.Values(v).Keys() }

func (v values) Forget(first, last int) {
	for key := range v {
		if step := stepOf(key); first <= step && step <= last {
			delete(v, key)
		}
	}
}

// SetNull has a key "3.*" stand for all names.
func (v values) SetNull(first, last int) {
	v.Forget(first, last)
	for i := first; i <= last; i++ {
		v[fmt.Sprintf("%d.*", i)] = nil
	}
}

func (v values) LoopEnded(marker int, _ []int, count, failed, rescued int) {
	v[fmt.Sprintf("%d.count", marker)], v[fmt.Sprintf("%d.failed_count", marker)] = num(count), num(failed)
}

// stepOf is the step that a key like "3.file" belongs to, or -1.
func stepOf(key string) int {
	head, _, _ := strings.Cut(key, ".")
	step, err := strconv.Atoi(head)
	if err != nil {
		return -1
	}
	return step
}
