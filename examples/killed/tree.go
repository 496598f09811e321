package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/flow"
)

// A printer draws the steps of an execution with the workers of their attempts.
type printer struct {
	out     io.Writer
	records []courier.StepExecution
}

// printTree prints the tree of an execution's steps: each attempt, with its worker and its end.
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
	fmt.Fprintf(out, "%s: %s\n", x.Job, x.State)
	p := &printer{out, steps}
	p.list(tree.Root(), "", nil)
	return nil
}

// branches returns the text before the i-th of n lines, and the text before the lines below it.
func branches(i, n int) (line, below string) {
	if i == n-1 {
		return "└── ", "    "
	}
	return "├── ", "│   "
}

func (p *printer) list(l *flow.List, indent string, iteration []int) {
	for i, n := range l.Nodes {
		line, below := branches(i, len(l.Nodes))
		switch n := n.(type) {
		case *flow.Step:
			p.step(n, indent+line, iteration)
		case *flow.ForEach:
			fmt.Fprintf(p.out, "%sforeach %v\n", indent+line, n.Spec.Config["source"])
			total := p.iterations(n)
			for i := range total {
				line, inner := branches(i, total)
				fmt.Fprintf(p.out, "%s[%d]\n", indent+below+line, i)
				p.list(n.Body, indent+below+inner, append(iteration[:len(iteration):len(iteration)], i))
			}
		}
	}
}

// iterations is the number of iterations of a loop, as its first step recorded it.
func (p *printer) iterations(n *flow.ForEach) int {
	for _, s := range p.records {
		if s.Step > n.Index() && len(s.Total) > 0 {
			return s.Total[0]
		}
	}
	return 0
}

func (p *printer) step(n *flow.Step, branch string, iteration []int) {
	name := fmt.Sprintf("%s%s (%s)", branch, n.Spec.Type, n.Spec.ID)
	pad := strings.Repeat(" ", max(1, 42-utf8.RuneCountInString(name)))
	var attempts []string
	for _, s := range p.records {
		if s.Step != n.Index() || !slices.Equal(s.Iteration, iteration) {
			continue
		}
		end := string(s.State) + " by"
		if s.Reason == courier.ReasonWorkerLost {
			end = "lost with"
		}
		attempts = append(attempts, end+" "+s.Worker)
	}
	fmt.Fprintf(p.out, "%s%s%s\n", name, pad, strings.Join(attempts, ", then "))
}
