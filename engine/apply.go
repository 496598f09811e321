package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/calendar"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/expectation"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/text"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/notify"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// ApplyOptions are the settings of [Engine.Apply]. The zero value is the default.
type ApplyOptions struct {
	// Name is the name of the deployment, such as that of the service. The store records
	// under it which definitions the deployment has. Like the name of a job it has at most
	// 200 characters. Empty means that nothing is recorded.
	Name string
	By   courier.By // who applies the bundle, and why
	// Prune removes the definitions that an earlier Apply of the same Name had in its
	// bundle and the present bundle does not have. A definition that can't be removed is
	// reported as [ActionKept], with the reason. Prune needs a Name.
	Prune bool
	// DryRun saves nothing, and reports what Apply would do.
	DryRun bool
	// Base, if not nil, is the report of an earlier DryRun or Apply. If a stored
	// definition differs from that report, nothing is saved, and the error, which matches
	// [courier.ErrConflict], names each of these definitions. Definitions that are not in
	// the report are not compared.
	Base *Applied
}

// An Applied is the report of [Engine.Apply].
type Applied struct {
	Name    string `json:"name,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"`
	Version int    `json:"version,omitempty"` // of the deployment, counting only applies that changed something; 0 without a name
	// Definitions are those of the bundle, in the order in which they are written,
	// followed by those that Prune removes or keeps.
	Definitions []AppliedDefinition `json:"definitions"`
	Warnings    []courier.Problem   `json:"warnings,omitempty"` // doubtful places in the bundle
}

// An AppliedDefinition says what [Engine.Apply] has done with a definition, or would do.
type AppliedDefinition struct {
	Kind   string      `json:"kind"` // job, chain, calendar, schedule, monitor, expectation or subscription
	Name   string      `json:"name"`
	Action ApplyAction `json:"action"`
	// Done says that the action is complete. In a dry run, and for definitions that Apply
	// did not reach because of an error, it is true only for unchanged and kept ones.
	Done   bool   `json:"done"`
	Reason string `json:"reason,omitempty"` // why it is kept
	// Stored is a digest of the definition that is stored after the call; empty if none
	// is.
	Stored string `json:"stored,omitempty"`
	// Differences are the differences between the stored definition and the bundle, if the
	// action is [ActionChange].
	Differences []Difference `json:"differences,omitempty"`
}

// An ApplyAction is what [Engine.Apply] does with a definition.
type ApplyAction string

// The actions.
const (
	ActionCreate    ApplyAction = "create"
	ActionChange    ApplyAction = "change"
	ActionUnchanged ApplyAction = "unchanged" // the stored definition equals that of the bundle
	ActionRemove    ApplyAction = "remove"    // only with Prune
	ActionKept      ApplyAction = "kept"      // Prune would remove it, but could not; see Reason
)

// A Difference is a value in a definition that differs. A value that does not exist is nil.
type Difference struct {
	// Pointer is a JSON pointer (RFC 6901) into the new definition; for a step or member
	// that was removed, into the old one.
	Pointer string          `json:"pointer"`
	From    json.RawMessage `json:"from,omitempty"`
	To      json.RawMessage `json:"to,omitempty"`
}

// Changes reports whether the bundle differs from what was stored.
func (a Applied) Changes() bool {
	return slices.ContainsFunc(a.Definitions, func(d AppliedDefinition) bool { return d.Action.writes() })
}

func (c ApplyAction) writes() bool {
	return c == ActionCreate || c == ActionChange || c == ActionRemove
}

// String lists all definitions except the unchanged ones, each on a line, followed by lines
// with its differences.
func (a Applied) String() string {
	var b strings.Builder
	unchanged := 0
	for _, d := range a.Definitions {
		if d.Action == ActionUnchanged {
			unchanged++
			continue
		}
		fmt.Fprintf(&b, "%s %s %q", d.Action, d.Kind, d.Name)
		switch {
		case d.Reason != "":
			b.WriteString(": " + d.Reason)
		case !a.DryRun && !d.Done:
			b.WriteString(": not done")
		}
		b.WriteByte('\n')
		for _, f := range d.Differences {
			fmt.Fprintf(&b, "  %s: %s -> %s\n", f.Pointer, cmp.Or(string(f.From), "nothing"), cmp.Or(string(f.To), "nothing"))
		}
	}
	fmt.Fprintf(&b, "%s unchanged\n", text.Count(unchanged, "definition"))
	return strings.Map(func(r rune) rune { // names and values can't steer a terminal
		if r != '\n' && !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, b.String())
}

// Apply saves a bundle as one deployment. It writes the definitions that differ from the stored
// ones, each by the rules of Define and Set. The others are not written and get no entry in the
// journal. If anything has changed, the journal also gets one entry for the deployment.
//
// Apply first checks the bundle as [Engine.Check] does, and also what only this engine can
// check: the listers of monitors, the hosts of webhooks and the secrets of params. If the bundle
// or the check has problems, nothing is saved, and Apply returns the error of [Bundle.Err].
//
// Apply is not a single transaction. It writes in this order: jobs, each after those that it
// depends on, chains, calendars, schedules, monitors, expectations, subscriptions. Then it
// removes the definitions that Prune selects. If a write fails, Apply stops and returns the
// report with the error: [AppliedDefinition].Done says what is saved. Another Apply of the same
// bundle continues. One transaction is not possible: a store marks a job that is removed, or on
// which another job begins to depend, in a transaction of its own, and then waits for the
// transactions that were open, so that no Enqueue takes a lock for a definition. Calendars,
// schedules, monitors, expectations and subscriptions are written by optional roles of the store.
//
// The store refuses to write a job or a chain that was changed after Apply had read it. Apply
// compares a calendar, schedule, monitor, expectation or subscription right before it writes it.
// If another Apply of the same Name runs at the same time, with another bundle or with Prune, one
// or both return an error. The error matches [courier.ErrConflict] and names the definitions that
// have changed.
//
// Prune removes each definition after those that use it: expectations, schedules, monitors and
// subscriptions, then chains, jobs and calendars. It keeps a definition with executions that have
// not ended, a definition that another one uses, a subscription with notifications that wait for
// delivery, and a definition that belongs to another deployment. A later Apply with Prune removes
// them when the reason no longer holds.
//
// A nil opt means the defaults.
func (e *Engine) Apply(ctx context.Context, b Bundle, opt *ApplyOptions) (Applied, error) {
	a := &apply{e: e}
	if opt != nil {
		a.opt = *opt
	}
	a.Name, a.DryRun = a.opt.Name, a.opt.DryRun
	err := a.plan(ctx, &b)
	if err == nil && !a.DryRun {
		err = a.write(ctx)
	}
	for _, p := range a.planned {
		a.Definitions = append(a.Definitions, p.AppliedDefinition)
	}
	if err != nil && a.Name == "" {
		return a.Applied, fmt.Errorf("apply: %w", err)
	}
	if err != nil {
		return a.Applied, fmt.Errorf("apply %q: %w", a.Name, err)
	}
	return a.Applied, nil
}

const maxDeploymentName = 200 // characters

// An apply is an Apply in progress.
type apply struct {
	Applied
	e       *Engine
	opt     ApplyOptions
	check   *bundleCheck
	planned []*planned
	old     deployment // the record that is saved
	was     string     // the same as JSON; empty if there is none
	record  deployment // that is to be saved
}

// A planned definition is one that is to be written or removed, or not.
type planned struct {
	AppliedDefinition
	now json.RawMessage // the definition in the bundle; nil if it is to be removed
	// stored returns what is stored; nil if nothing is.
	stored func(context.Context) (json.RawMessage, error)
	write  func(context.Context) error
}

// A deployment is what a store keeps of the last Apply of a name.
type deployment struct {
	Definitions []deployed `json:"definitions"` // of the bundle
	// Left are those that earlier bundles had, and that are stored still.
	Left []deployed `json:"left,omitempty"`
}

// A deployed is a definition of a deployment.
type deployed struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"` // of the definition in the bundle
}

// rank puts what is used behind what uses it.
func (d deployed) rank() int {
	return slices.Index([]string{string(store.Chain), string(store.Job), string(store.Calendar)}, d.Kind)
}

// digest tells definitions from each other; it is empty for none.
func digest(body json.RawMessage) string {
	if body == nil {
		return ""
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

// plan checks the bundle, and finds what is to be done.
func (a *apply) plan(ctx context.Context, b *Bundle) error {
	if err := text.Check(text.By(a.opt.By, "Name", a.Name)); err != nil {
		return err
	}
	if n := utf8.RuneCountInString(a.Name); n > maxDeploymentName {
		a.Name = ""
		return courier.Errorf(courier.ErrInvalid, "Name has %d characters; %d is the most", n, maxDeploymentName)
	}
	if a.opt.Prune && a.Name == "" {
		return courier.Errorf(courier.ErrInvalid, "Prune needs a Name: it removes what an earlier Apply of the same name has saved")
	}
	if err := b.Err(); err != nil {
		return err
	}
	var err error
	if a.check, err = a.e.bundleCheck(ctx, a.e.opt.savingCheck); err != nil {
		return fmt.Errorf("check definitions: %w", err)
	}
	a.check.listers = true // as by Set
	a.check.add(ctx, b)
	found, err := a.check.result()
	if err != nil {
		return fmt.Errorf("check definitions: %w", err)
	}
	if err := found.Err(); err != nil {
		return err
	}
	a.Warnings = found.Warnings
	for _, list := range []func(context.Context) error{a.readRecord, a.planJobs, a.planChains, a.planServices, a.planRest} {
		if err := list(ctx); err != nil {
			return err
		}
	}
	return a.compareBase(ctx)
}

// add plans what is to be done with a definition of the bundle.
func (a *apply) add(kind, name string, was, now json.RawMessage, same bool, stored func(context.Context) (json.RawMessage, error), write func(context.Context) error) {
	p := &planned{AppliedDefinition{Kind: kind, Name: name, Action: ActionUnchanged, Done: same, Stored: digest(was)}, now, stored, write}
	switch {
	case same:
	case was == nil:
		p.Action = ActionCreate
	default:
		p.Action, p.Differences = ActionChange, differences(was, now)
	}
	a.planned = append(a.planned, p)
	a.record.Definitions = append(a.record.Definitions, deployed{kind, name, digest(now)})
}

// differences returns what differs between two versions of a definition.
func differences(was, now json.RawMessage) (list []Difference) {
	d := definitiondiff.Of(was, now)
	add := func(at string, fields []definitiondiff.Difference) {
		for _, f := range fields {
			list = append(list, Difference{at + f.Pointer, f.From, f.To})
		}
	}
	add("", d.Fields)
	for name, parts := range map[string][]definitiondiff.PartDiff{"/steps": d.Steps, "/members": d.Members} { // one of them is empty
		for _, p := range parts {
			at := p.To
			if at == nil {
				at = p.From
			}
			if p.Change == "moved" {
				list = append(list, Difference{name, fmt.Append(nil, *p.From), fmt.Append(nil, *p.To)})
			}
			add(fmt.Sprintf("%s/%d", name, *at), p.Fields)
		}
	}
	return list
}

// planJobs plans the jobs, each after those that it depends on. The order is that of all
// dependencies as they will be, so that no dependency that is still to be replaced closes a
// cycle.
func (a *apply) planJobs(ctx context.Context) error {
	given := make(map[string]*core.CheckedJob)
	for i := range a.check.checkedJobs {
		given[a.check.checkedJobs[i].Job.Name] = &a.check.checkedJobs[i]
	}
	seen := make(map[string]bool)
	var visit func(name string) error
	visit = func(name string) error {
		if seen[name] {
			return nil
		}
		seen[name] = true
		d, err := a.check.catalog.Load(ctx, store.Job, name, 0)
		if err != nil {
			return err
		}
		for _, up := range store.Upstreams(&d) {
			if err := visit(up); err != nil {
				return err
			}
		}
		j := given[name]
		if j == nil {
			return nil
		}
		return a.addDefinition(ctx, store.Job, name, j.Job, func(ctx context.Context, opt *courier.DefineOptions) error {
			_, err := a.e.definitions.DefineChecked(ctx, *j, opt)
			return err
		})
	}
	for i := range a.check.checkedJobs {
		if err := visit(a.check.checkedJobs[i].Job.Name); err != nil {
			return err
		}
	}
	return nil
}

// planChains plans the chains.
func (a *apply) planChains(ctx context.Context) error {
	for i, c := range a.check.checkedChains {
		if _, err := a.e.roles.Chains(); err != nil {
			return err
		}
		err := a.addDefinition(ctx, store.Chain, c.Name, c, func(ctx context.Context, opt *courier.DefineOptions) error {
			_, err := a.e.chains.Define(ctx, a.check.Chains[i], opt)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// addDefinition plans a job or a chain as it will be saved.
func (a *apply) addDefinition(ctx context.Context, kind store.Kind, name string, v any, define func(context.Context, *courier.DefineOptions) error) error {
	saved, err := a.load(ctx, kind, name)
	if err != nil {
		return err
	}
	body, err := jsontext.Append(nil, v)
	if err != nil {
		return err
	}
	a.add(string(kind), name, saved.Body, body, string(saved.Body) == string(body), nil, func(ctx context.Context) error {
		return define(ctx, &courier.DefineOptions{By: a.opt.By, Base: &saved.Version})
	})
	return nil
}

// load returns the latest version of a definition, or the zero value if there is none.
func (a *apply) load(ctx context.Context, kind store.Kind, name string) (store.Definition, error) {
	d, err := a.e.store.Load(ctx, kind, name, 0)
	switch {
	case errors.Is(err, courier.ErrNotFound):
		return store.Definition{}, nil
	case err != nil:
		return d, fmt.Errorf("load %s %q: %w", kind, name, err)
	case d.Removed():
		d.Body = nil
	}
	return d, nil
}

// planServices plans calendars, schedules, monitors, expectations and subscriptions.
func (a *apply) planServices(ctx context.Context) error {
	for _, x := range a.check.Calendars {
		if err := addService(ctx, a, "calendar", x.Name, x, a.e.calendars.Compare, a.e.calendars.Set); err != nil {
			return err
		}
	}
	for _, x := range a.check.Schedules {
		if err := addService(ctx, a, "schedule", x.Name, x, a.e.schedules.Compare, a.e.schedules.Set); err != nil {
			return err
		}
	}
	for _, m := range a.check.Monitors {
		if err := addService(ctx, a, "monitor", m.Name, m, a.e.monitors.Compare, a.e.monitors.Set); err != nil {
			return err
		}
	}
	for _, x := range a.check.Expectations {
		if err := addService(ctx, a, "expectation", x.Name, x, a.e.expectations.Compare, a.e.expectations.Set); err != nil {
			return err
		}
	}
	for _, x := range a.check.Subscriptions {
		if err := addService(ctx, a, "subscription", x.Name, x, a.e.notifications.Compare, a.e.notifications.Set); err != nil {
			return err
		}
	}
	return nil
}

// addService plans a definition that a service compares and sets.
func addService[T, R any](ctx context.Context, a *apply, kind, name string, v T,
	compare func(context.Context, T) (was, now json.RawMessage, same bool, err error), set func(context.Context, T, courier.By) (R, error),
) error {
	was, now, same, err := compare(ctx, v)
	if err != nil {
		return err
	}
	stored := func(ctx context.Context) (json.RawMessage, error) {
		was, _, _, err := compare(ctx, v)
		return was, err
	}
	a.add(kind, name, was, now, same, stored, func(ctx context.Context) error {
		_, err := set(ctx, v, a.opt.By)
		return err
	})
	return nil
}

// readRecord reads the record of the deployment. It is the first read of the store, so that an
// Apply which another one has overtaken since can't save its own record.
func (a *apply) readRecord(ctx context.Context) error {
	if a.Name == "" {
		return nil
	}
	saved, err := a.load(ctx, store.Deployment, a.Name)
	a.Version, a.was = saved.Version, string(saved.Body)
	if err == nil && saved.Body != nil {
		if err = json.Unmarshal(saved.Body, &a.old); err != nil {
			return fmt.Errorf("the record of the deployment can't be read: %w", err)
		}
	}
	return err
}

// planRest plans what is to be done with what earlier bundles had.
func (a *apply) planRest(ctx context.Context) (err error) {
	var others map[deployed]string
	rest, err := a.rest(ctx)
	if err != nil {
		return err
	}
	for _, d := range rest {
		given := func(have deployed) bool { return have.Kind == d.Kind && have.Name == d.Name }
		if slices.ContainsFunc(a.record.Definitions, given) || slices.ContainsFunc(a.record.Left, given) {
			continue
		}
		stored := func(ctx context.Context) (json.RawMessage, error) { return a.stored(ctx, d) }
		was, err := stored(ctx)
		if err != nil {
			return err
		}
		if was == nil {
			continue // somebody has removed it
		}
		if !a.opt.Prune {
			a.record.Left = append(a.record.Left, d)
			continue
		}
		if others == nil {
			if others, err = a.otherDeployments(ctx); err != nil {
				return err
			}
		}
		p := &planned{AppliedDefinition{Kind: d.Kind, Name: d.Name, Action: ActionRemove, Stored: digest(was)}, nil, stored, nil}
		if other := others[d]; other != "" {
			p.Reason = fmt.Sprintf("the deployment %q has it too", other)
		} else if p.Reason, p.write, err = a.removal(ctx, d); errors.Is(err, courier.ErrNotFound) {
			continue // somebody has removed it meanwhile
		} else if err != nil {
			return err
		}
		a.record.Left = append(a.record.Left, d)
		if p.Reason != "" {
			p.Action, p.Done = ActionKept, true
		}
		a.planned = append(a.planned, p)
	}
	return nil
}

// rest returns what earlier bundles had, what uses others before these.
func (a *apply) rest(ctx context.Context) ([]deployed, error) {
	rest := slices.Concat(a.old.Definitions, a.old.Left)
	depth := make(map[deployed]int)
	var of func(d deployed) (int, error) // how many jobs depend on each other at most, from this one on
	of = func(d deployed) (most int, err error) {
		if n, ok := depth[d]; ok || d.Kind != string(store.Job) {
			return n, nil
		}
		depth[d] = 1 // there are no cycles
		saved, err := a.load(ctx, store.Job, d.Name)
		for _, up := range store.Upstreams(&saved) {
			n, failed := of(deployed{Kind: d.Kind, Name: up})
			most, err = max(most, n), errors.Join(err, failed)
		}
		depth[d] = most + 1
		return most + 1, err
	}
	var failed error
	for i := range rest {
		rest[i].Digest = ""
		_, err := of(rest[i])
		failed = errors.Join(failed, err)
	}
	slices.SortStableFunc(rest, func(x, y deployed) int {
		return cmp.Or(cmp.Compare(x.rank(), y.rank()), cmp.Compare(depth[y], depth[x]))
	})
	return rest, failed
}

// stored returns what is stored of a definition; nil if nothing is.
func (a *apply) stored(ctx context.Context, d deployed) (was json.RawMessage, err error) {
	switch d.Kind {
	case "calendar":
		was, _, _, err = a.e.calendars.Compare(ctx, calendar.Calendar{Name: d.Name})
	case "schedule":
		was, _, _, err = a.e.schedules.Compare(ctx, schedule.Schedule{Name: d.Name})
	case "monitor":
		was, _, _, err = a.e.monitors.Compare(ctx, monitor.Monitor{Name: d.Name})
	case "expectation":
		was, _, _, err = a.e.expectations.Compare(ctx, expectation.Expectation{Name: d.Name})
	case "subscription":
		was, _, _, err = a.e.notifications.Compare(ctx, notify.Subscription{Name: d.Name})
	default:
		saved, err := a.load(ctx, store.Kind(d.Kind), d.Name)
		return saved.Body, err
	}
	return was, err
}

// otherDeployments returns the definitions of all other deployments, with the name of one
// that has them.
func (a *apply) otherDeployments(ctx context.Context) (map[deployed]string, error) {
	others := make(map[deployed]string)
	f := store.DefinitionFilter{Kind: store.Deployment, Limit: 1000}
	for {
		list, err := a.e.store.List(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("list deployments: %w", err)
		}
		for _, d := range list {
			var record deployment
			if f.After = d.Name; d.Name == a.Name || json.Unmarshal(d.Body, &record) != nil {
				continue
			}
			for _, have := range record.Definitions {
				have.Digest = ""
				others[have] = d.Name
			}
		}
		if len(list) < f.Limit {
			return others, nil
		}
	}
}

// removal returns how a definition is removed, or the reason why it can't be.
func (a *apply) removal(ctx context.Context, d deployed) (reason string, remove func(context.Context) error, err error) {
	switch d.Kind {
	case "calendar":
		reason, err = a.users(ctx, d)
		return reason, a.remove(d, a.e.calendars.Remove), err
	case "schedule":
		s, err := a.e.schedules.Get(ctx, d.Name)
		if err == nil {
			reason, err = a.open(ctx, s.Job, s.Chain, "schedule:"+d.Name)
		}
		return reason, a.remove(d, a.e.schedules.Remove), err
	case "monitor":
		m, err := a.e.monitors.Get(ctx, d.Name)
		if err == nil {
			reason, err = a.open(ctx, m.Job, m.Chain, "monitor:"+d.Name)
		}
		return reason, a.remove(d, a.e.monitors.Remove), err
	case "expectation":
		return "", a.remove(d, a.e.expectations.Remove), nil
	case "subscription":
		list, err := a.e.notifications.Deliveries(ctx, notify.DeliveryFilter{Subscription: d.Name, State: notify.Pending, Limit: 1})
		if len(list) > 0 {
			reason = fmt.Sprintf("notifications wait for delivery, the first of the event %s", list[0].ID)
		}
		return reason, a.remove(d, a.e.notifications.Remove), err
	}
	kind := store.Kind(d.Kind)
	if reason, err = a.users(ctx, d); reason == "" && err == nil {
		job, name := d.Name, ""
		if kind == store.Chain {
			job, name = "", d.Name
		}
		reason, err = a.open(ctx, job, name, "")
	}
	return reason, a.remove(d, func(ctx context.Context, name string, by courier.By) error {
		return access{a.e}.removeDefinition(ctx, kind, name, by)
	}), err
}

// users returns the phrase that names what will use a calendar, job or chain after this Apply;
// empty if nothing will.
func (a *apply) users(ctx context.Context, d deployed) (string, error) {
	var left []string
	var err error
	if d.Kind == string(store.Calendar) {
		left, err = a.e.calendars.Users(ctx, d.Name)
	} else {
		left, err = access{a.e}.users(ctx, store.Kind(d.Kind), d.Name)
	}
	if err != nil {
		return "", err
	}
	for _, p := range a.planned {
		if p.Action != ActionKept { // it is removed, or the bundle says what it uses
			left = slices.DeleteFunc(left, func(user string) bool { return user == fmt.Sprintf("%s %q", p.Kind, p.Name) })
		}
	}
	add := func(uses bool, kind, name string) {
		if uses {
			left = append(left, fmt.Sprintf("%s %q", kind, name))
		}
	}
	is := func(kind store.Kind, name string) bool { return string(kind) == d.Kind && name == d.Name }
	for _, x := range a.check.Schedules {
		add(is(store.Calendar, x.Calendar) || is(store.Job, x.Job) || is(store.Chain, x.Chain), "schedule", x.Name)
	}
	for _, x := range a.check.Monitors {
		add(is(store.Calendar, x.Calendar) || is(store.Job, x.Job) || is(store.Chain, x.Chain), "monitor", x.Name)
	}
	for _, x := range a.check.Expectations {
		add(is(store.Calendar, x.Calendar) || is(store.Job, x.From.Job), "expectation", x.Name)
	}
	for _, x := range a.check.Subscriptions {
		add(x.Job != nil && is(store.Job, x.Job.Name), "subscription", x.Name)
	}
	for _, x := range a.check.checkedChains {
		add(slices.ContainsFunc(x.Members, func(m chain.Member) bool { return is(store.Job, m.Job) }), "chain", x.Name)
	}
	for i := range a.check.checkedJobs {
		x := &a.check.checkedJobs[i].Job
		add(slices.ContainsFunc(x.DependsOn, func(on courier.JobDependency) bool { return is(store.Job, on.Job) }), "job", x.Name)
	}
	if d.Kind == string(store.Calendar) {
		err = calendar.InUse(d.Name, left)
	} else {
		err = inUse(store.Kind(d.Kind), d.Name, left)
	}
	if err != nil {
		return text.Plain(err), nil
	}
	return "", nil
}

// remove returns what removes a definition that somebody else may have removed meanwhile.
func (a *apply) remove(d deployed, remove func(context.Context, string, courier.By) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := remove(ctx, d.Name, a.opt.By); !errors.Is(err, courier.ErrNotFound) {
			return err
		}
		return nil
	}
}

// open returns the phrase that names an execution of a job, or of a chain if job is empty, that
// a schedule or monitor has started, or anybody if by is empty, and that has not ended; empty if
// there is none.
func (a *apply) open(ctx context.Context, job, name, by string) (string, error) {
	const page = 1000
	if job == "" {
		s, err := a.e.roles.Chains()
		f := chain.Filter{Chain: name, States: []chain.State{chain.Pending, chain.Running, chain.Paused}, Limit: page}
		for err == nil {
			var list []chain.Execution
			list, err = s.ChainExecutions(ctx, f)
			for i := range list {
				if f.Before = list[i].ID; by == "" || list[i].By == by {
					return fmt.Sprintf("its chain execution %s is %s", list[i].ID, list[i].State), nil
				}
			}
			if len(list) < page {
				break
			}
		}
		return "", err
	}
	f := store.Filter{Job: job, States: []courier.State{courier.Created, courier.Queued, courier.Running, courier.Paused}, Limit: page}
	for {
		list, err := a.e.store.Executions(ctx, f)
		for i := range list {
			if f.Before = list[i].ID; by == "" || list[i].By == by {
				return fmt.Sprintf("its execution %s is %s", list[i].ID, list[i].State), nil
			}
		}
		if err != nil || len(list) < page {
			return "", err
		}
	}
}

// compareBase compares what is stored with what Base says.
func (a *apply) compareBase(ctx context.Context) error {
	if a.opt.Base == nil {
		return nil
	}
	var changed []string
	for _, p := range a.planned {
		i := slices.IndexFunc(a.opt.Base.Definitions, func(d AppliedDefinition) bool { return d.Kind == p.Kind && d.Name == p.Name })
		if i >= 0 && a.opt.Base.Definitions[i].Stored != p.Stored {
			changed = append(changed, fmt.Sprintf("%s %q%s", p.Kind, p.Name, a.changedBy(ctx, p)))
		}
	}
	if len(changed) == 0 {
		return nil
	}
	return courier.Errorf(courier.ErrConflict, "changed since Base was reported: %s; nothing was saved; get a new report", strings.Join(changed, ", "))
}

// changedBy is the phrase that says who has saved a job or chain; empty if it is not known.
func (a *apply) changedBy(ctx context.Context, p *planned) string {
	if p.stored != nil {
		return ""
	}
	d, err := a.load(ctx, store.Kind(p.Kind), p.Name)
	if err != nil || d.Version == 0 {
		return ""
	}
	return fmt.Sprintf(" (version %d%s)", d.Version, courier.By{Actor: d.By})
}

// write carries out the plan.
func (a *apply) write(ctx context.Context) error {
	if err := a.save(ctx, "nothing was saved"); err != nil {
		return err
	}
	for _, p := range a.planned {
		if !p.Action.writes() {
			continue
		}
		there, err := a.compare(ctx, p)
		if err != nil {
			return err
		}
		if !there {
			err = p.write(ctx)
		}
		if p.Action == ActionRemove && errors.Is(err, courier.ErrConflict) { // it has come into use since
			p.Action, p.Done, p.Reason = ActionKept, true, text.Plain(err)
			continue
		}
		if err != nil {
			return err
		}
		p.Done, p.Stored = true, digest(p.now)
		if p.now == nil {
			a.record.Left = slices.DeleteFunc(a.record.Left, func(d deployed) bool { return d.Kind == p.Kind && d.Name == p.Name })
		}
	}
	const replaced = "it may have replaced what this one has saved"
	if err := a.save(ctx, replaced); err != nil {
		return err
	}
	if err := a.current(ctx, replaced); err != nil {
		return err
	}
	return a.note(ctx)
}

// current returns an error, with what follows from that, if another Apply of the same name has
// saved a record since this one has read or saved its own.
func (a *apply) current(ctx context.Context, outcome string) error {
	if a.Name == "" {
		return nil
	}
	d, err := a.load(ctx, store.Deployment, a.Name)
	if err == nil && d.Version != a.Version {
		err = courier.Errorf(courier.ErrConflict, "another Apply of this name has begun%s; %s; apply again", courier.By{Actor: d.By}, outcome)
	}
	return err
}

// save saves the record of the deployment, if it differs from the one that is saved. It is
// saved before the definitions, so that Prune finds what was saved before a failure, and so
// that one of two Applies that begin at once is refused.
func (a *apply) save(ctx context.Context, outcome string) error {
	if a.Name == "" {
		return nil
	}
	record := a.record
	for _, list := range []*[]deployed{&record.Definitions, &record.Left} {
		*list = slices.Clone(*list)
		slices.SortFunc(*list, func(x, y deployed) int {
			return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Name, y.Name))
		})
	}
	body, err := jsontext.Append(nil, record)
	if err != nil || string(body) == a.was {
		return err
	}
	d, err := a.e.store.Save(ctx, store.Definition{Kind: store.Deployment, Name: a.Name, Body: body, By: a.opt.By.Actor, Base: &a.Version})
	if errors.Is(err, courier.ErrConflict) {
		return courier.Errorf(courier.ErrConflict, "another Apply of this name has begun meanwhile; %s; apply again", outcome)
	}
	if err != nil {
		return fmt.Errorf("save the record of the deployment: %w", err)
	}
	a.Version, a.was = d.Version, string(body)
	return nil
}

// compare returns an error if somebody else has changed a definition since it was read, or has
// begun another Apply of the same name. There reports that it is stored already as it is to be, by
// an Apply of the same bundle. The store itself compares jobs and chains.
func (a *apply) compare(ctx context.Context, p *planned) (there bool, err error) {
	if err := a.current(ctx, fmt.Sprintf("%s %q and what follows were not saved", p.Kind, p.Name)); err != nil {
		return false, err
	}
	if p.stored == nil {
		return false, nil
	}
	was, err := p.stored(ctx)
	switch {
	case err != nil:
		return false, err
	case digest(was) == digest(p.now):
		return true, nil
	case digest(was) != p.Stored:
		return false, courier.Errorf(courier.ErrConflict, "%s %q was changed meanwhile; it and the definitions after it were not saved; apply again", p.Kind, p.Name)
	}
	return false, nil
}

// note adds an entry for the deployment to the journal and the log, if anything has changed.
func (a *apply) note(ctx context.Context) error {
	type change struct {
		Kind   string      `json:"kind"`
		Name   string      `json:"name"`
		Action ApplyAction `json:"action"`
	}
	var list []change
	for _, p := range a.planned {
		if p.Action.writes() {
			list = append(list, change{p.Kind, p.Name, p.Action})
		}
	}
	if list == nil {
		return nil
	}
	now, err := jsontext.Append(nil, list)
	if err == nil {
		access{a.e}.Changed(ctx, a.opt.By, store.Action{Kind: "deployment", Name: a.Name, Verb: "applied", Now: now})
	}
	return err
}
