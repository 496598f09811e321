package dryruns

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/program"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/inputs"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/text"
)

// chain checks a chain and puts the steps of its members on the list of those to
// validate. Its error is one of the store, or of a job that can't run here.
func (d *run) chain(ctx context.Context, c chain.Chain, r *dryrun.ChainReport) error {
	bad := func(field string, err error) error {
		r.Problems = append(r.Problems, courier.Problem{Step: -1, Field: field, Message: text.Plain(err)})
		return nil
	}
	checks := d.cfg.Unsaved(d.opt.Jobs, []chain.Chain{c})
	def, err := checks.CheckChain(ctx, c)
	if err != nil {
		return err
	}
	if _, err := d.cfg.Roles.Chains(); err != nil {
		return bad("", err)
	}
	r.Problems, r.Warnings = append(r.Problems, def.Problems...), def.Warnings
	declared := flow.ReadParams(def.Chain.Params)
	merged, err := inputs.Params(declared, d.opt.Params, d.opt.Params == nil, d.cfg.MaxParams)
	if err != nil {
		r.Problems = append(r.Problems, core.ParamProblems(err)...)
		return nil
	}
	if len(r.Problems) > 0 {
		return nil
	}
	own := params{given: d.opt.Params}
	r.Unknown, r.Params = unknownParams(declared, own), declaredParams(declared, own)
	known := jsontext.Object(merged)
	for _, name := range r.Unknown {
		delete(known, name)
	}
	order := startOrder(def.DependsOn)
	r.Members = make([]dryrun.MemberReport, len(order))
	for n, i := range order {
		m := &def.Chain.Members[i]
		p, err := checks.Program(ctx, m.Job, def.Jobs[i].Version)
		if err != nil {
			return err
		}
		out := &r.Members[n]
		out.Member, out.DependsOn = m.Name, m.DependsOn
		out.Report = dryrun.Report{Job: p.Job.Name, Version: p.Version}
		given, err := memberParams(m, p, known, r.Unknown)
		if err != nil {
			out.Report.Problems = []courier.Problem{{Step: -1, Field: "params", Message: text.Plain(err)}}
		}
		given.after = len(m.DependsOn) > 0
		if err := d.member(ctx, checks, p, given, &out.Report); err != nil {
			return err
		}
	}
	return nil
}

// member checks the job of a member, and puts its steps on the list of those to
// validate. Its error is one of the store.
func (d *run) member(ctx context.Context, checks Checks, p *program.Program, given params, r *dryrun.Report) error {
	checked, err := checks.CheckJob(ctx, p.Definition())
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		r.Problems = append(bad.Problems, r.Problems...)
		r.Steps = uncheckedSteps(p.Definition().Steps, bad.Problems)
		return nil
	}
	if err != nil {
		return err
	}
	r.Warnings = checked.Warnings
	d.program(ctx, program.Compile(p.Definition(), p.Version, checked.Tree, d.cfg.Registry), given, r)
	return nil
}

// startOrder returns the indexes of members in an order in which each comes after those
// that it depends on, otherwise as they are listed.
func startOrder(dependsOn [][]int) []int {
	depth := make([]int, len(dependsOn))
	for i := range depth {
		depth[i] = -1
	}
	for done := 0; done < len(depth); {
		for i, edges := range dependsOn {
			deepest := 0
			for _, j := range edges {
				if depth[j] < 0 {
					deepest = -1
					break
				}
				deepest = max(deepest, depth[j]+1)
			}
			if depth[i] < 0 && deepest >= 0 {
				depth[i] = deepest
				done++
			}
		}
	}
	order := make([]int, len(depth))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(depth[a], depth[b]) })
	return order
}

// memberParams are the params of a member's execution, as far as they are known.
func memberParams(m *chain.Member, p *program.Program, known map[string]any, unknown []string) (params, error) {
	takes := func(name string) bool {
		_, declared := p.Job.Params[name]
		return declared || p.Job.Params == nil
	}
	out := params{given: make(map[string]any)}
	scope := make(courier.Values, len(known))
	for name, v := range known {
		scope["params."+name] = v
		if takes(name) {
			out.given[name] = v
		}
	}
	later := make(map[string]bool)
	for _, name := range unknown {
		later[name] = takes(name)
	}
	template, _ := flow.Compile(m.Params)
	raw, missing, err := template.Partial(scope, nil)
	if err != nil {
		return out, err
	}
	own := jsontext.Object(raw)
	maps.Copy(out.given, own)
	for name := range own {
		delete(later, name)
	}
	for _, name := range missing {
		later[name] = true
		delete(out.given, name)
	}
	for name, is := range later {
		if is {
			out.later = append(out.later, name)
		}
	}
	return out, nil
}
