package dashboard

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// A flowView is the steps of a job as nested blocks. The template "flow" shows it.
type flowView struct {
	Nodes []flowNode
	// Broken says that the blocks can't be read: then Nodes has all entries, one after the
	// other.
	Broken string
	Cut    int // how many entries are left out, since there are too many or they lie too deep
}

// A flowNode is a step or a block.
type flowNode struct {
	Kind            string // "step", "if", "foreach"
	Index           int
	ID, Type, Name  string
	Doc             string // of the type
	Unknown         bool   // this engine does not have the type
	Left, Op, Right string // the condition of an if
	Config          []configField
	Rules           []string // timeouts and failure policy, in words
	Then, Else      []flowNode
	Elsed           bool // there is an else
}

// A configField is a field of a configuration.
type configField struct {
	Name string
	Kind string // "secret" for the name of one, "ref" for a reference, "json", or "text"
	Text string
}

// What a page shows of a job.
const (
	maxFlowNodes = 1000
	maxFlowDepth = 40
)

// A flowMaker makes the view of a job.
type flowMaker struct {
	reg  *courier.Registry
	left int // nodes that still fit
	cut  int
}

// flowOf returns the steps of a job as blocks. Types are those of a registry, which may have
// none at all, as that of a service which executes nothing.
func flowOf(job *courier.Job, reg *courier.Registry) flowView {
	m := flowMaker{reg: reg, left: maxFlowNodes}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		v := flowView{Broken: "The blocks of this version can't be read: " + err.Error()}
		for i := range job.Steps {
			if m.take(1) {
				v.Nodes = append(v.Nodes, m.node("step", i, &job.Steps[i]))
			}
		}
		v.Cut = m.cut
		return v
	}
	nodes := m.list(tree.Root(), 0)
	return flowView{Nodes: nodes, Cut: m.cut}
}

// take reports whether an entry fits. If it does not, n entries are left out with it.
func (m *flowMaker) take(n int) bool {
	if m.left == 0 {
		m.cut += n
		return false
	}
	m.left--
	return true
}

func (m *flowMaker) list(l *flow.List, depth int) (nodes []flowNode) {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		switch n := n.(type) {
		case *flow.Step:
			if m.take(1) {
				nodes = append(nodes, m.node("step", n.Index(), n.Spec))
			}
		case *flow.If:
			if !m.block(depth, n.Index(), n.End) {
				continue
			}
			node := m.node("if", n.Index(), n.Spec)
			node.Left, node.Op, node.Right = valueText(n.Spec.Config["left"]), strings.ReplaceAll(strings.ToLower(valueText(n.Spec.Config["operator"])), "_", " "), valueText(n.Spec.Config["right"])
			node.Config = slices.DeleteFunc(node.Config, func(f configField) bool { return f.Name == "left" || f.Name == "operator" || f.Name == "right" })
			node.Then, node.Else, node.Elsed = m.list(n.Then, depth+1), m.list(n.Else, depth+1), n.Else != nil
			nodes = append(nodes, node)
		case *flow.ForEach:
			if !m.block(depth, n.Index(), n.End) {
				continue
			}
			node := m.node("foreach", n.Index(), n.Spec)
			node.Left = valueText(n.Spec.Config["source"])
			node.Config = slices.DeleteFunc(node.Config, func(f configField) bool { return f.Name == "source" })
			node.Then = m.list(n.Body, depth+1)
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// block reports whether a block fits, which lies at a depth and has the entries from first
// to last.
func (m *flowMaker) block(depth, first, last int) bool {
	if depth >= maxFlowDepth {
		m.cut += last - first + 1
		return false
	}
	return m.take(last - first + 1)
}

func (m *flowMaker) node(kind string, i int, s *courier.StepSpec) flowNode {
	n := flowNode{Kind: kind, Index: i, ID: s.ID, Type: s.Type, Name: s.Name}
	t, known := m.reg.Lookup(s.Type)
	if known {
		n.Doc = t.Doc()
	} else {
		n.Unknown = kind == "step" && len(m.reg.Keys()) > 0 && !strings.HasPrefix(strings.ToLower(s.Type), "flow.")
	}
	n.Config = configOf(s.Config, t)
	n.Rules = rulesOf(s)
	return n
}

// configOf returns the fields of a configuration, in the order of the type and then by their
// names.
func configOf(config map[string]any, t *courier.StepType) (fields []configField) {
	var names []string
	if t != nil {
		for _, name := range t.Config().Names() {
			if _, ok := config[name]; ok {
				names = append(names, name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		f := configField{Name: name, Kind: "text", Text: valueText(config[name])}
		if s, ok := config[name].(string); !ok {
			f.Kind = "json"
		} else if secret, ok := strings.CutPrefix(s, "secret:"); ok {
			f.Kind, f.Text = "secret", secret
		} else if strings.HasPrefix(s, "context:") {
			f.Kind = "ref"
		}
		fields = append(fields, f)
	}
	return fields
}

// valueText returns a value of a definition for people: text as it is, and other values as
// JSON.
func valueText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := jsontext.AppendAny(nil, v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return broken(raw)
}

// broken returns JSON text with line breaks, if it is longer than a short line.
func broken(raw []byte) string {
	if len(raw) <= 60 {
		return string(raw)
	}
	return format.IndentJSON(raw)
}

// rulesOf says in words what a step says of its time and its failure.
func rulesOf(s *courier.StepSpec) (rules []string) {
	limit := func(d *time.Duration, what, none string) {
		switch {
		case d == nil:
		case *d == 0:
			rules = append(rules, none)
		default:
			rules = append(rules, what+format.Span(*d))
		}
	}
	limit(s.Timeout, "An attempt takes at most ", "An attempt may take any time")
	limit(s.StallTimeout, "It fails after this time without progress: ", "It may stand still for any time")
	if text := policyText(s.FailurePolicy); text != "" {
		rules = append(rules, text)
	}
	if s.AllowParent {
		rules = append(rules, `Values may have ".." in paths`)
	}
	return rules
}

// policyText says in words what a failure leads to; empty for the policy that says nothing.
func policyText(p courier.FailurePolicy) string {
	if p.IsZero() {
		return ""
	}
	text := ""
	switch p.Type {
	case courier.RetryStep, courier.RetryJob:
		what := "the step"
		if p.Type == courier.RetryJob {
			what = "the whole job"
		}
		text = "A failure repeats " + what + ", at most " + strconv.Itoa(p.Retries()) + " times"
		base, most := time.Second, time.Minute
		if p.BackoffBase != nil {
			base = *p.BackoffBase
		}
		if p.BackoffMax != nil {
			most = *p.BackoffMax
		}
		text += ", after " + format.Span(base) + " at first and " + format.Span(most) + " at most"
		if p.Jitter != nil && !*p.Jitter {
			text += ", without jitter"
		}
	case courier.SkipAndContinue:
		text = "A failure skips the step"
	default:
		text = "A failure stops the execution"
	}
	if len(p.RetryOn) > 0 {
		text += "; only for " + reasonList(p.RetryOn)
	}
	if len(p.NoRetryOn) > 0 {
		text += "; not for " + reasonList(p.NoRetryOn)
	}
	return text
}

func reasonList(list []courier.Reason) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = string(r)
	}
	return strings.Join(words, ", ")
}

// textOf returns a job as the text that people edit. The version is not a part of it:
// saving makes a new one.
func textOf(job courier.Job) (string, error) {
	job.Version = 0
	raw, err := job.MarshalJSON()
	if err != nil {
		return "", err
	}
	return format.Editable(format.IndentJSON(raw)), nil
}
