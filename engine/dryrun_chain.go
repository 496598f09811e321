package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/store"
)

// chain checks a chain and puts the steps of its members on the list of those to
// validate. Its error is one of the store, or of a job that can't run here.
func (d *dryRun) chain(ctx context.Context, chain courier.Chain, r *ChainReport) error {
	bad := func(field string, err error) error {
		r.Problems = append(r.Problems, courier.Problem{Step: -1, Field: field, Message: core.PlainMessage(err)})
		return nil
	}
	d.checks = d.e.with(d.opt.Jobs, []courier.Chain{chain})
	def, err := d.checks.checkChain(ctx, chain)
	if err != nil {
		return err
	}
	if _, err := d.e.chains(); err != nil {
		return bad("", err)
	}
	r.Problems, r.Warnings = append(r.Problems, def.problems...), def.warnings
	merged, err := d.e.mergeParams(def.chain.Params, d.opt.Params)
	if err != nil {
		return bad("params", err)
	}
	if len(r.Problems) > 0 {
		return nil
	}
	own := params{given: d.opt.Params}
	r.Unknown = unknownParams(def.chain.Params, own)
	known := object(merged)
	for _, name := range r.Unknown {
		delete(known, name)
	}
	order := def.order()
	r.Members = make([]MemberReport, len(order))
	for n, i := range order {
		m, p := &def.chain.Members[i], def.programs[i]
		out := &r.Members[n]
		out.Member, out.DependsOn = m.Name, m.DependsOn
		out.Report = Report{Job: p.job.Name, Version: p.version}
		given, err := memberParams(m, p, known, r.Unknown)
		if err != nil {
			out.Report.Problems = []courier.Problem{{Step: -1, Field: "params", Message: core.PlainMessage(err)}}
		}
		given.after = len(m.DependsOn) > 0
		if err := d.member(ctx, p, given, &out.Report); err != nil {
			return err
		}
	}
	return nil
}

// member checks the job of a member, and puts its steps on the list of those to
// validate. Its error is one of the store.
func (d *dryRun) member(ctx context.Context, p *program, given params, r *Report) error {
	_, tree, warnings, err := d.checks.check(ctx, p.job)
	if bad, ok := errors.AsType[*courier.DefinitionError](err); ok {
		r.Problems = append(bad.Problems, r.Problems...)
		r.Steps = uncheckedSteps(p.job.Steps, bad.Problems)
		return nil
	}
	if err != nil {
		return err
	}
	r.Warnings = warnings
	d.program(compile(p.job, p.version, tree, d.e.reg), given, r)
	return nil
}

// order is an order of the members in which each comes after those that it
// depends on, otherwise as they are listed.
func (d *chainDefinition) order() []int {
	depth := make([]int, len(d.edges))
	for i := range depth {
		depth[i] = -1
	}
	for done := 0; done < len(depth); {
		for i, edges := range d.edges {
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
func memberParams(m *courier.ChainMember, p *program, known map[string]any, unknown []string) (params, error) {
	takes := func(name string) bool {
		_, declared := p.job.Params[name]
		return declared || p.job.Params == nil
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
	own := object(raw)
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

// maxSchedules is how many schedules of a job or chain a dry run tells of.
const maxSchedules = 100

// schedules reports those that start a job or chain, which is the target of s.
func (d *dryRun) schedules(ctx context.Context, s *courier.Schedule, list *[]ScheduleReport, warnings *[]courier.Problem) error {
	a, ok := d.e.store.(store.Schedules)
	kind, target := targetOf(s)
	if !ok || target == "" || ctx.Err() != nil {
		return nil
	}
	call, cancel := context.WithTimeout(ctx, core.StoreTimeout)
	defer cancel()
	t, err := a.Schedules(call, store.ScheduleFilter{Kind: kind, Target: target, Limit: maxSchedules + 1})
	if err != nil {
		return fmt.Errorf("read schedules: %w", err)
	}
	if len(t.List) > maxSchedules {
		t.List = t.List[:maxSchedules]
		*warnings = append(*warnings, courier.Problem{Step: -1, Field: "schedules", Message: fmt.Sprintf("there are more than %d; only the first are told of, by their names", maxSchedules)})
	}
	for i := range t.List {
		*list = append(*list, d.schedule(&t.List[i], t.Now))
	}
	return nil
}

// schedule says when a schedule will fire.
func (d *dryRun) schedule(s *store.Schedule, now time.Time) ScheduleReport {
	def := publicSchedule(s)
	r := ScheduleReport{Schedule: s.Name, Zone: def.Zone, Next: []time.Time{}}
	c, problems := d.e.newCalendar(&def)
	if len(problems) > 0 {
		r.Problem = (&courier.ScheduleError{Schedule: s.Name, Problems: problems}).Error()
		return r
	}
	r.Words, r.Notes = d.words(&def, now)
	if def.Problem != "" {
		r.Notes = append(r.Notes, "the last time it could not fire: "+def.Problem)
	}
	if d.target != nil {
		if _, err := d.e.execution(d.target, "", &EnqueueOptions{Params: def.Params}); err != nil {
			r.Problem = "it can't start this version: " + core.PlainMessage(err)
		}
	}
	switch {
	case s.Disabled || s.Paused:
		r.Reason = cmp.Or(s.Reason, "it is disabled")
		return r
	case s.Next.IsZero():
		r.Reason = "it has no time to fire any more"
		return r
	}
	zone, err := time.LoadLocation(def.Zone)
	if err != nil {
		zone = time.UTC
	}
	for at := s.Next; !at.IsZero() && len(r.Next) < d.opt.Fires; at = c(at) {
		r.Next = append(r.Next, at.In(zone))
	}
	return r
}

// words says what a schedule is, and what is to be known of its times.
func (d *dryRun) words(s *courier.Schedule, now time.Time) (words string, notes []string) {
	switch {
	case !s.At.IsZero():
		words = "Once"
	case s.Every > 0:
		words = "Every " + shortDuration(s.Every)
	default:
		if x, err := ExplainCron(s.Cron, s.Zone, now, 1); err == nil {
			words, notes = x.Words, x.Notes
		}
	}
	if s.Jitter > 0 {
		notes = append(notes, "each time is late by up to "+shortDuration(s.Jitter)+" (jitter)")
	}
	return words, notes
}

// shortDuration is a duration without units that are zero at its end.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
