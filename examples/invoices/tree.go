package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
)

// place identifies a step in an iteration.
func place(s *courier.StepExecution) string {
	return fmt.Sprint(s.Step, courier.FormatIteration(s.Iteration))
}

// A printer draws the tree of a job's steps, with the result of each step.
type printer struct {
	out     io.Writer
	records map[string][]courier.StepExecution // by place, in order
}

// printTree prints the steps that an execution has run, with state, attempts,
// bytes and time.
func printTree(ctx context.Context, out io.Writer, e *engine.Engine, x courier.Execution) error {
	job, err := e.Jobs().Get(ctx, x.Job, x.Version)
	if err != nil {
		return err
	}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		return err
	}
	steps, err := e.Executions().Steps(ctx, x.ID)
	if err != nil {
		return err
	}
	p := &printer{out: out, records: make(map[string][]courier.StepExecution)}
	for _, s := range steps {
		p.records[place(&s)] = append(p.records[place(&s)], s)
	}
	fmt.Fprintf(out, "\n%s: %s after %s\n", x.Job, x.State, x.EndedAt.Sub(x.StartedAt).Round(time.Millisecond))
	p.list(tree.Root(), "", nil)
	if last := tree.Finally(); last != nil && p.anyRan(last, nil) {
		fmt.Fprintln(out, "finally")
		p.list(last, "", nil)
	}
	return nil
}

func (p *printer) list(l *flow.List, indent string, iteration []int) {
	var shown []flow.Node
	for _, n := range l.Nodes {
		if p.ran(n, iteration) {
			shown = append(shown, n)
		}
	}
	for i, n := range shown {
		branch, below := "├── ", "│   "
		if i == len(shown)-1 {
			branch, below = "└── ", "    "
		}
		p.node(n, indent+branch, indent+below, iteration)
	}
}

func (p *printer) node(n flow.Node, branch, indent string, iteration []int) {
	switch n := n.(type) {
	case *flow.Step:
		p.step(n, branch, iteration)
	case *flow.If:
		name := "then"
		taken := n.Then
		if n.Else != nil && p.anyRan(n.Else, iteration) {
			name, taken = "else", n.Else
		}
		fmt.Fprintf(p.out, "%s%d if: %s\n", branch, n.Index(), name)
		p.list(taken, indent, iteration)
	case *flow.ForEach:
		fmt.Fprintf(p.out, "%s%d foreach %v\n", branch, n.Index(), n.Spec.Config["source"])
		total := p.iterations(n, iteration)
		for i := range total {
			each, below := "├── ", "│   "
			if i == total-1 {
				each, below = "└── ", "    "
			}
			fmt.Fprintf(p.out, "%s%s[%d]\n", indent, each, i)
			p.list(n.Body, indent+below, append(iteration[:len(iteration):len(iteration)], i))
			if n.Rescue != nil {
				p.list(n.Rescue, indent+below, append(iteration[:len(iteration):len(iteration)], i))
			}
		}
	}
}

func (p *printer) step(n *flow.Step, branch string, iteration []int) {
	records := p.of(n.Index(), iteration)
	last := records[len(records)-1]
	var spent time.Duration
	var bytes int64
	for _, r := range records {
		spent += r.EndedAt.Sub(r.StartedAt)
		bytes += r.Bytes
	}
	attempts := "1 attempt"
	if len(records) > 1 {
		attempts = fmt.Sprintf("%d attempts", len(records))
	}
	name := fmt.Sprintf("%s%d %s", branch, n.Index(), label(n.Spec.ID, n.Spec.Type, nil))
	pad := strings.Repeat(" ", max(1, 46-len([]rune(name))))
	fmt.Fprintf(p.out, "%s%s%-9s  %-10s  %9s  %8s\n", name, pad, last.State, attempts, size(bytes), spent.Round(100*time.Microsecond))
	if last.State != courier.StepCompleted {
		fmt.Fprintf(p.out, "%s    %s\n", strings.Repeat(" ", len([]rune(branch))), last.Error)
	}
}

func (p *printer) of(step int, iteration []int) []courier.StepExecution {
	return p.records[place(&courier.StepExecution{Step: step, Iteration: iteration})]
}

// ran reports whether any part of a node was executed in an iteration.
func (p *printer) ran(n flow.Node, iteration []int) bool {
	switch n := n.(type) {
	case *flow.If:
		return p.anyRan(n.Then, iteration) || n.Else != nil && p.anyRan(n.Else, iteration)
	case *flow.ForEach:
		return p.iterations(n, iteration) > 0
	}
	return len(p.of(n.Index(), iteration)) > 0
}

func (p *printer) anyRan(l *flow.List, iteration []int) bool {
	for _, n := range l.Nodes {
		if p.ran(n, iteration) {
			return true
		}
	}
	return false
}

// iterations counts the iterations of a loop in which at least one step was executed.
func (p *printer) iterations(n *flow.ForEach, iteration []int) int {
	i := 0
	for p.anyRan(n.Body, append(iteration[:len(iteration):len(iteration)], i)) {
		i++
	}
	return i
}
