// Package definition shows the definitions of jobs: the steps as nested blocks, the settings and
// parameters in words, and the text for an editor.
package definition

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
)

// A Flow is the steps of a job as nested blocks. The template "flow" shows it.
type Flow struct {
	Nodes []Node
	// Broken says why the blocks can't be read. Then Nodes has all entries in order, without
	// nesting.
	Broken string
	Cut    int // number of entries that are left out, because they are too many or too deep
}

// A Node is a step or a block.
type Node struct {
	Kind            string // "step", "if", "foreach", "try"
	Index           int
	ID, Type, Name  string
	Doc             string // of the type
	Unknown         bool   // this engine does not have the type
	Left, Op, Right string // the condition of an if
	Config          []Field
	Rules           []string // timeouts and failure policy, in words
	Then, Else      []Node
	Elsed           bool    // there is an else, or a rescue
	Rescue          []Field // the configuration of the flow.rescue
}

// A Field is a field of a configuration.
type Field struct {
	Name string
	Kind string // "secret" for the name of one, "ref" for a reference, "json", or "text"
	Text string
}

// The limits of the view of a job.
const (
	maxNodes = 1000
	maxDepth = 40
)

// A maker makes the view of a job.
type maker struct {
	reg  *courier.Registry
	tree *flow.Tree
	left int // how many more nodes fit
	cut  int
}

// FlowOf returns the steps of a job as blocks. The registry has the step types. It may be empty,
// such as in a service that executes nothing.
func FlowOf(job *courier.Job, reg *courier.Registry) Flow {
	m := maker{reg: reg, left: maxNodes}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		v := Flow{Broken: "The blocks of this version can't be read: " + err.Error()}
		for i := range job.Steps {
			if m.take(1) {
				v.Nodes = append(v.Nodes, m.node("step", i, &job.Steps[i]))
			}
		}
		v.Cut = m.cut
		return v
	}
	m.tree = tree
	nodes := m.list(tree.Root(), 0)
	if at := tree.FinallyMarker(); at >= 0 && m.take(1) {
		node := m.node("finally", at, tree.Spec(at))
		node.Then = m.list(tree.Finally(), 1)
		nodes = append(nodes, node)
	}
	return Flow{Nodes: nodes, Cut: m.cut}
}

// take reports whether an entry fits. If it does not fit, n entries are left out.
func (m *maker) take(n int) bool {
	if m.left == 0 {
		m.cut += n
		return false
	}
	m.left--
	return true
}

func (m *maker) list(l *flow.List, depth int) (nodes []Node) {
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
			node.Left, node.Op, node.Right = Value(n.Spec.Config["left"]), strings.ReplaceAll(strings.ToLower(Value(n.Spec.Config["operator"])), "_", " "), Value(n.Spec.Config["right"])
			node.Config = slices.DeleteFunc(node.Config, func(f Field) bool { return f.Name == "left" || f.Name == "operator" || f.Name == "right" })
			node.Then, node.Else, node.Elsed = m.list(n.Then, depth+1), m.list(n.Else, depth+1), n.Else != nil
			nodes = append(nodes, node)
		case *flow.ForEach:
			if !m.block(depth, n.Index(), n.End) {
				continue
			}
			node := m.node("foreach", n.Index(), n.Spec)
			node.Left = Value(n.Spec.Config["source"])
			node.Config = slices.DeleteFunc(node.Config, func(f Field) bool { return f.Name == "source" })
			node.Then, node.Else, node.Elsed = m.list(n.Body, depth+1), m.list(n.Rescue, depth+1), n.Rescue != nil
			node.Rescue = m.rescueOf(n.Index())
			nodes = append(nodes, node)
		case *flow.Try:
			if !m.block(depth, n.Index(), n.End) {
				continue
			}
			node := m.node("try", n.Index(), n.Spec)
			node.Then, node.Else, node.Elsed, node.Rescue = m.list(n.Body, depth+1), m.list(n.Rescue, depth+1), true, m.rescueOf(n.Index())
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// rescueOf returns the configuration of the flow.rescue of a block.
func (m *maker) rescueOf(open int) []Field {
	if at := m.tree.Rescue(open); at >= 0 {
		return configOf(m.tree.Spec(at).Config, nil)
	}
	return nil
}

// block reports whether a block fits. It lies at the given depth and has the entries from first to
// last.
func (m *maker) block(depth, first, last int) bool {
	if depth >= maxDepth {
		m.cut += last - first + 1
		return false
	}
	return m.take(last - first + 1)
}

func (m *maker) node(kind string, i int, s *courier.StepSpec) Node {
	n := Node{Kind: kind, Index: i, ID: s.ID, Type: s.Type, Name: s.Name}
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

// configOf returns the fields of a configuration, in the order of the step type. The other fields
// follow in the order of their names.
func configOf(config map[string]any, t *courier.StepType) (fields []Field) {
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
		f := Field{Name: name, Kind: "text", Text: Value(config[name])}
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

// rulesOf returns the timeouts and the failure policy of a step, in words.
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
	limit(s.Timeout, "Timeout of an attempt: ", "An attempt has no timeout")
	limit(s.StallTimeout, "Timeout without progress: ", "No timeout without progress")
	if text := policyText(s.FailurePolicy); text != "" {
		rules = append(rules, text)
	}
	if s.AllowParent {
		rules = append(rules, `Values may have ".." in paths`)
	}
	return rules
}
