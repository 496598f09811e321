package definition_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/definition"
)

// registry has the type demo.get, with an alias.
func registry() *courier.Registry {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "demo.get", func(context.Context, *courier.Context, struct {
		Path string `json:"path" courier:"required"`
		Size int    `json:"size"`
	}) (struct{}, error) {
		return struct{}{}, nil
	}, &courier.TypeOptions{Aliases: []string{"demo.fetch"}})
	return r
}

// outline is the nodes of a flow in one line.
func outline(nodes []definition.Node) string {
	var list []string
	for _, n := range nodes {
		text := fmt.Sprint(n.Kind, n.Index)
		if n.Left+n.Op != "" {
			text += fmt.Sprintf("<%s>", strings.Join(strings.Fields(n.Left+" "+n.Op+" "+n.Right), " "))
		}
		if n.Unknown {
			text += "?"
		}
		if n.Kind != "step" {
			text += "(" + outline(n.Then) + ")"
		}
		if n.Elsed {
			text += "(" + outline(n.Else) + ")"
		}
		list = append(list, text)
	}
	return strings.Join(list, " ")
}

// TestFlow: steps stand in their blocks. Those whose blocks can't be read stand one after the other,
// and a service that executes nothing knows no type that is missing.
func TestFlow(t *testing.T) {
	steps := []courier.StepSpec{
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.list"}}, {Type: "demo.get"},
		{Type: "flow.IF", Config: map[string]any{"left": 1, "operator": "GREATER_THAN", "right": "x"}}, {Type: "demo.gte"}, {Type: "flow.else"}, {Type: "flow.end"}, {Type: "flow.end"},
	}
	if got := definition.FlowOf(&courier.Job{Steps: steps}, registry()); outline(got.Nodes) != "foreach0<context:params.list>(step1 if2<1 greater than x>(step3?)())" || got.Broken != "" || got.Cut != 0 {
		t.Errorf("%s, %+v", outline(got.Nodes), got)
	}
	if got := definition.FlowOf(&courier.Job{Steps: steps}, new(courier.Registry)); strings.Contains(outline(got.Nodes), "?") {
		t.Errorf("without types: %s", outline(got.Nodes))
	}
	if got := definition.FlowOf(&courier.Job{Steps: steps[:3]}, registry()); !strings.HasPrefix(got.Broken, "The blocks of this version can't be read: ") || outline(got.Nodes) != "step0 step1 step2" {
		t.Errorf("%s, %+v", outline(got.Nodes), got.Broken)
	}
}

// TestFlowIsBounded: of a hostile job a page shows a thousand entries and forty levels, and how many
// entries it leaves out.
func TestFlowIsBounded(t *testing.T) {
	var flat, deep, broken []courier.StepSpec
	for range 1500 {
		flat, broken = append(flat, courier.StepSpec{Type: "demo.get"}), append(broken, courier.StepSpec{Type: "flow.end"})
	}
	for range 50 {
		deep = append(deep, courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": []any{1}}})
	}
	for range 50 {
		deep = append(deep, courier.StepSpec{Type: "flow.end"})
	}
	for name, c := range map[string]struct {
		steps []courier.StepSpec
		cut   int
	}{"many": {flat, 500}, "broken": {broken, 500}, "deep": {deep, 20}} {
		if got := definition.FlowOf(&courier.Job{Steps: c.steps}, registry()); got.Cut != c.cut || len(got.Nodes) > 1000 {
			t.Errorf("%s: %d entries, %d are cut", name, len(got.Nodes), got.Cut)
		}
	}
}

// TestConfig: fields stand in the order of the type and then of their names, each by what it is, and
// rules are words.
func TestConfig(t *testing.T) {
	minute, none := time.Minute, time.Duration(0)
	node := definition.FlowOf(&courier.Job{Steps: []courier.StepSpec{{
		Type: "demo.fetch", Timeout: &minute, StallTimeout: &none, AllowParent: true,
		FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, BackoffMax: &minute, Jitter: courier.JitterNone, NoRetryOn: []courier.Reason{courier.ReasonPermission}},
		Config:        map[string]any{"zone": "context:params.z", "size": 3, "path": "/in", "a": "secret:db"},
	}}}, registry()).Nodes[0]
	if got := fmt.Sprint(node.Config); got != "[{path text /in} {size json 3} {a secret db} {zone ref context:params.z}]" || node.Unknown {
		t.Errorf("%s", got)
	}
	want := []string{
		"Timeout of an attempt: 1 min", "No timeout without progress",
		"A failure retries the step, at most 3 times, after 1 s at first and at most 1 min, without jitter; not for permission", `Values may have ".." in paths`,
	}
	if !slices.Equal(node.Rules, want) {
		t.Errorf("%q", node.Rules)
	}
}

// TestWords: what a job and its parameters say is said in words, and what they do not say only where
// there is a default.
func TestWords(t *testing.T) {
	texts := func(job *courier.Job) (list []string) {
		for _, f := range definition.Facts(job) {
			list = append(list, f.Name+": "+f.Text)
		}
		return list
	}
	if got := texts(&courier.Job{}); !slices.Equal(got, []string{"Queue: default", "Failure: A failure stops the execution"}) {
		t.Errorf("%q", got)
	}
	job := &courier.Job{
		Queue: "night", Limit: 2, LimitKeys: []string{"partner:acme"}, Timeout: 90 * time.Minute, ExpectedBy: "07:30 Europe/Berlin",
		FailurePolicy: courier.FailurePolicy{Type: courier.SkipAndContinue}, Outputs: []courier.JobOutput{{From: "context:a.b", To: "/srv/"}},
	}
	if got := strings.Join(texts(job), "; "); got != "Queue: night; Limit: 2 executions at once; Limit key: partner:acme; Failure: A failure skips the step; Timeout: 1 h 30 min for the whole execution; Expected by: 07:30 Europe/Berlin; Kept file: context:a.b as /srv/" {
		t.Errorf("%s", got)
	}
	params := definition.Params(map[string]any{
		"n": map[string]any{"type": "integer", "min": 1, "max": 10, "required": true}, "to": map[string]any{"type": "text", "max_length": 3, "pattern": "[a-z]*", "enum": []any{"a", "b"}, "default": "a"},
		"l": map[string]any{"type": "list", "min_length": 1}, "x": nil, "empty": "",
	})
	want := `[{empty any    true} {l list at least 1 items   false} {n integer required; at least 1; at most 10   false} {to text one of a, b; matches [a-z]*; at most 3 characters a  true} {x any    false}]`
	if got := fmt.Sprint(params); got != want || definition.Params(nil) != nil {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestFirst: a new job begins with a step of the first type and its required fields, and a new chain
// with a job that can start without parameters.
func TestFirst(t *testing.T) {
	if s := definition.FirstJob(registry()).Steps[0]; s.Type != "demo.get" || fmt.Sprint(s.Config) != "map[path:]" {
		t.Errorf("%+v", s)
	}
	if s := definition.FirstJob(new(courier.Registry)).Steps[0]; s.Type != "family.verb" {
		t.Errorf("%+v", s)
	}
	if list := definition.Types(registry()); len(list) != 1 || list[0].Key != "demo.get" {
		t.Errorf("%+v", list)
	}
	needs := courier.Job{Name: "needs", Params: map[string]any{"day": map[string]any{"type": "date", "required": true}}}
	free, none := courier.Job{Name: "free"}, courier.Job{Name: "none", Params: map[string]any{}}
	for want, jobs := range map[string][]courier.Job{"free": {needs, free, none}, "needs": {needs}, "name of a job": nil} {
		if c := definition.FirstChain(jobs); c.Members[0].Job != want || c.Members[1].DependsOn[0].Member != c.Members[0].Name {
			t.Errorf("%+v, want %s", c, want)
		}
	}
	if got := fmt.Sprint(definition.Jobs([]courier.Job{needs, free, none})); got != "[{needs Takes day.} {free Takes any parameters.} {none Takes no parameters.}]" {
		t.Errorf("%s", got)
	}
	job := &courier.Job{Name: "a", Version: 7}
	if text := definition.Text(job); strings.Contains(text, "7") || job.Version != 7 || strings.Contains(definition.Text(&chain.Chain{Name: "c", Version: 7}), "7") {
		t.Errorf("the version is a part of the text: %s", text)
	}
}
