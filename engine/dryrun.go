package engine

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/engine/internal/dryrun"
	"github.com/courierhq/courier/engine/internal/stepcall"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/schedule"
)

// DryRunOptions are the settings of a dry run. The zero value is the default.
type DryRunOptions struct {
	// Params are those that an execution would be given, as for
	// [Engine.Enqueue] or [Chains.Start]. What is declared as null and not
	// given counts as not known.
	Params map[string]any
	// Timeout is the longest time for validating one step. 0 means 30 seconds.
	Timeout time.Duration
	// Parallel is how many steps are validated at a time. Those that use the same
	// connection are validated one after the other, whatever it is. 0 means 8.
	Parallel int
	// Jobs are taken by DryRunChain in place of the latest versions of those with
	// the same names, and need not be saved. DryRun does not use them.
	Jobs []courier.Job
	// Fires is how many of its next times the report has for each schedule. 0 means 5.
	Fires int
}

// DryRun finds out whether a job could run, as far as that is possible without
// running it. It checks the definition as Define does; it calls Validate of every
// step, on both branches of every flow.if and inside of loops, with real connections
// and secrets; and it looks when schedules will start the job. The job need not be
// saved; for a saved job, pass what [Jobs.Get] returns.
//
// Nothing is executed, and nothing is written: no execution, no version, no file and
// no workspace. What is known only at run time, such as the outputs of steps, the
// items of loops and params that are not given, is no mistake: the report says which
// fields of a step could not be checked. Steps with the same connection share it; a
// connection that does not work is not tried again.
//
// Whatever is wrong is in the report; see [Report.Err]. The error of DryRun itself is
// that of a store that can't be read, or that of ctx if it ends first; then the
// report has what was found so far. A nil opt means the defaults.
func (h Jobs) DryRun(ctx context.Context, job courier.Job, opt *DryRunOptions) (Report, error) {
	r, err := h.e.dryRuns.Job(ctx, job, (*dryrun.Options)(opt))
	return reportOf(r), err
}

// DryRun is [Jobs.DryRun] for a chain: it checks the chain as [Chains.Define] does,
// and the job of each member with the params that the member gives it. Neither the
// chain nor its jobs have to be saved, if [DryRunOptions].Jobs has the jobs; for a
// saved chain, pass what [Chains.Get] returns. Params are those of the chain.
func (h Chains) DryRun(ctx context.Context, chain courier.Chain, opt *DryRunOptions) (ChainReport, error) {
	r, err := h.e.dryRuns.Chain(ctx, chain, (*dryrun.Options)(opt))
	return chainReportOf(r), err
}

// A CheckState is the result of a dry run for a step.
type CheckState string

// The values of CheckState.
const (
	CheckOK      CheckState = "ok"          // its Validate found nothing wrong
	CheckProblem CheckState = "problem"     // Message says what is wrong, and what to do
	NotChecked   CheckState = "not_checked" // Message says why
)

// A Report is the result of a dry run of a job. It has no secrets in it. String
// is for people; JSON, with the names of the field tags and the member "ok", for
// programs.
type Report struct {
	Job     string `json:"job"`
	Version int    `json:"version,omitempty"` // as the job that was given had it; 0 if it was not saved
	// Problems are what is wrong with the definition or the params. If the
	// definition has any, its steps are not validated.
	Problems []courier.Problem `json:"problems,omitempty"`
	// Warnings are what looks doubtful. String shows those of steps beside the step.
	Warnings []courier.Problem `json:"warnings,omitempty"`
	// Params are those that are declared with a type; Unknown those without a value.
	Params  []flow.DeclaredParam `json:"params,omitempty"`
	Unknown []string             `json:"unknown_params,omitempty"`
	// Steps has an entry for each step, of both branches of each flow.if, in the
	// order of the list; markers have none, unless something is wrong with them.
	Steps []StepReport `json:"steps"`
	// Schedules are those that start the job, in the order of their names.
	Schedules []schedule.Report `json:"schedules,omitempty"`
	Duration  time.Duration     `json:"-"` // of the whole dry run; "duration_seconds" in JSON
}

// A StepReport is what a dry run found out about a step.
type StepReport struct {
	Step int `json:"step"` // index in the flat list
	// Path is the indexes of the blocks around the step, outermost first, and its
	// own, with the branch after that of a flow.if: "1.3.then.4" is step 4, in
	// the first branch of the flow.if at 3, in the flow.foreach at 1.
	Path    string     `json:"path"`
	ID      string     `json:"id,omitempty"`
	Name    string     `json:"name,omitempty"`
	Type    string     `json:"type"`
	State   CheckState `json:"state"`
	Message string     `json:"message,omitempty"` // what is wrong, or why it was not checked
	// Unresolved are the fields of the configuration that are known only when the
	// step runs, and so were not checked.
	Unresolved []string `json:"unresolved,omitempty"`
	// Notes are what the step has logged, such as what it learned of a server; at
	// most 20.
	Notes    []string      `json:"notes,omitempty"`
	Duration time.Duration `json:"-"` // of its Validate; "duration_seconds" in JSON
}

// A ChainReport is the result of a dry run of a chain, as [Report] is that of a job.
type ChainReport struct {
	Chain   string `json:"chain"`
	Version int    `json:"version,omitempty"` // as the chain that was given had it; 0 if it was not saved
	// Problems are what is wrong with the chain or its params. If the chain has
	// any, its members are not looked at.
	Problems []courier.Problem    `json:"problems,omitempty"`
	Warnings []courier.Problem    `json:"warnings,omitempty"`       // what looks doubtful
	Params   []flow.DeclaredParam `json:"params,omitempty"`         // as in [Report]
	Unknown  []string             `json:"unknown_params,omitempty"` // the chain's params without a value, in order
	// Members are in an order in which they can begin: each after those that it
	// depends on, otherwise as in the definition.
	Members   []MemberReport    `json:"members"`
	Schedules []schedule.Report `json:"schedules,omitempty"` // those that start the chain
	Duration  time.Duration     `json:"-"`                   // "duration_seconds" in JSON
}

// A MemberReport is the result for a member of a chain. Its report has no
// schedules and no duration of its own.
type MemberReport struct {
	Member    string               `json:"member"`
	DependsOn []courier.Dependency `json:"depends_on,omitempty"`
	Report    Report               `json:"report"`
}

// OK reports whether the dry run has found nothing that keeps the job from running.
func (r Report) OK() bool { return r.Err() == nil }

// Err joins all that is wrong: problems, those of steps and those of schedules.
// It is nil if there is nothing.
func (r Report) Err() error { return r.plain().Err() }

// String returns the report for people. Its last line is a summary.
func (r Report) String() string { return r.plain().String() }

// WriteTo writes what String returns.
func (r Report) WriteTo(w io.Writer) (int64, error) { return strings.NewReader(r.String()).WriteTo(w) }

// MarshalJSON writes the report with whether it is OK.
func (r Report) MarshalJSON() ([]byte, error) { return json.Marshal(r.plain()) }

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Report) UnmarshalJSON(data []byte) error {
	var p dryrun.Report
	err := json.Unmarshal(data, &p)
	*r = reportOf(p)
	return err
}

// OK reports whether the dry run has found nothing that keeps the chain from running.
func (r ChainReport) OK() bool { return r.Err() == nil }

// Err joins all that is wrong: problems of the chain, its members and its
// schedules. It is nil if there is nothing.
func (r ChainReport) Err() error { return r.plain().Err() }

// String returns the report for people. Its last line is a summary.
func (r ChainReport) String() string { return r.plain().String() }

// WriteTo writes what String returns.
func (r ChainReport) WriteTo(w io.Writer) (int64, error) {
	return strings.NewReader(r.String()).WriteTo(w)
}

// MarshalJSON writes the report with whether it is OK.
func (r ChainReport) MarshalJSON() ([]byte, error) { return json.Marshal(r.plain()) }

// UnmarshalJSON reads what MarshalJSON has written.
func (r *ChainReport) UnmarshalJSON(data []byte) error {
	var p dryrun.ChainReport
	err := json.Unmarshal(data, &p)
	*r = chainReportOf(p)
	return err
}

// MarshalJSON writes the duration in seconds.
func (s StepReport) MarshalJSON() ([]byte, error) { return json.Marshal(s.plain()) }

// UnmarshalJSON reads what MarshalJSON has written.
func (s *StepReport) UnmarshalJSON(data []byte) error {
	var p dryrun.Step
	err := json.Unmarshal(data, &p)
	*s = stepReportOf(p)
	return err
}

// The functions below convert reports from and to those of package dryrun, which have
// the same fields.

func reportOf(p dryrun.Report) Report {
	return Report{
		Job: p.Job, Version: p.Version, Problems: p.Problems, Warnings: p.Warnings, Params: p.Params, Unknown: p.Unknown,
		Steps: mapped(p.Steps, stepReportOf), Schedules: p.Schedules, Duration: p.Duration,
	}
}

func (r Report) plain() dryrun.Report {
	return dryrun.Report{
		Job: r.Job, Version: r.Version, Problems: r.Problems, Warnings: r.Warnings, Params: r.Params, Unknown: r.Unknown,
		Steps: mapped(r.Steps, StepReport.plain), Schedules: r.Schedules, Duration: r.Duration,
	}
}

func chainReportOf(p dryrun.ChainReport) ChainReport {
	return ChainReport{
		Chain: p.Chain, Version: p.Version, Problems: p.Problems, Warnings: p.Warnings, Params: p.Params, Unknown: p.Unknown,
		Members: mapped(p.Members, memberReportOf), Schedules: p.Schedules, Duration: p.Duration,
	}
}

func (r ChainReport) plain() dryrun.ChainReport {
	return dryrun.ChainReport{
		Chain: r.Chain, Version: r.Version, Problems: r.Problems, Warnings: r.Warnings, Params: r.Params, Unknown: r.Unknown,
		Members: mapped(r.Members, MemberReport.plain), Schedules: r.Schedules, Duration: r.Duration,
	}
}

func stepReportOf(p dryrun.Step) StepReport {
	return StepReport{p.Step, p.Path, p.ID, p.Name, p.Type, CheckState(p.State), p.Message, p.Unresolved, p.Notes, p.Duration}
}

func (s StepReport) plain() dryrun.Step {
	return dryrun.Step{
		Step: s.Step, Path: s.Path, ID: s.ID, Name: s.Name, Type: s.Type, State: dryrun.State(s.State),
		Message: s.Message, Unresolved: s.Unresolved, Notes: s.Notes, Duration: s.Duration,
	}
}

func memberReportOf(p dryrun.Member) MemberReport {
	return MemberReport{p.Member, p.DependsOn, reportOf(p.Report)}
}

func (m MemberReport) plain() dryrun.Member {
	return dryrun.Member{Member: m.Member, DependsOn: m.DependsOn, Report: m.Report.plain()}
}

// Validate calls Validate of a step for a dry run, as an attempt calls Execute.
func (c access) Validate(ctx context.Context, v *dryrun.StepValidation) dryrun.StepValidated {
	r := &run{e: c.e, x: v.Execution, program: v.Program, vals: v.Values, secrets: v.Secrets}
	r.begin(ctx)
	defer r.goroutine.End()
	defer r.lost(nil)
	r.res = v.Resources
	a := r.newAttempt(v.Step)
	a.Timeout = v.Timeout
	a.scope.Open(v.Values)
	defer a.scope.Close()
	a.job = courier.NewContext(r.validateConfig(v, a)) // for reports about the step, and its secrets
	unresolved, o := a.callValidate(v)
	return dryrun.StepValidated{
		Unresolved: unresolved, Err: o.Err, TimedOut: o.Reason == courier.ReasonTimeout, Abandoned: o.Abandoned, Resources: r.res,
	}
}

// callValidate calls the step's Validate with what is known of its configuration, and
// returns the fields that have a value only when the step runs.
func (a *attempt) callValidate(v *dryrun.StepValidation) (unresolved []string, o stepcall.Outcome) {
	r := a.run
	ctx, cancel := context.WithCancelCause(r.steps)
	defer cancel(nil)
	found, cfg := new([]string), r.validateConfig(v, a)
	r.goroutine.Do(func() {
		a.call(func() (json.RawMessage, error) { return nil, a.validate(ctx, v.Step, found, cfg) })
	})
	o, returned := a.await(r.steps.Done(), cancel)
	if !returned {
		r.e.abandon(a)
		o = stepcall.Outcome{Err: context.Cause(ctx), Abandoned: true}
	} else {
		unresolved = *found
	}
	o.Judge(ctx)
	return unresolved, o
}

// validate calls the step's Validate. Unresolved is set before the step is
// called.
func (a *attempt) validate(ctx context.Context, step int, unresolved *[]string, cfg courier.ContextConfig) error {
	config, missing, err := a.run.program.Template(step).Partial(&a.scope, func(name, param string) (string, error) {
		v, err := a.secret(ctx, name, param)
		return v, core.PlainSecretError(err)
	})
	*unresolved = missing
	if err != nil {
		return err
	}
	cfg.Unresolved = missing
	job := courier.NewContext(cfg)
	defer job.Close()
	return a.typ.Validate(ctx, job, config)
}

// validateConfig is what Validate is given.
func (r *run) validateConfig(v *dryrun.StepValidation, a *attempt) courier.ContextConfig {
	cfg := r.contextConfig(v.Step, 1, a, nil)
	cfg.DryRun, cfg.OnProgress = true, nil
	next := slog.Handler(slog.DiscardHandler)
	if cfg.Log != nil {
		next = cfg.Log.Handler()
	}
	cfg.Log = slog.New(v.Log(next))
	return cfg
}
