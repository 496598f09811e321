// Package resumeform reads the form that resumes an execution with changes, and describes the
// effect of such a resume.
package resumeform

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/internal/jsontext"
)

// A Report describes the effect of a resume.
type Report struct {
	courier.ResumeReport
	At    string   // the step at which it continues
	Again []string // completed steps that run again
	Runs  string   // how many steps may run, and how often
	Gone  []string // files that completed steps have removed
	Text  string   // the configuration of the first step
}

// ItemValue returns a failed item as the value of a field: "3:1.0" for the item at index 1.0 of the loop at 3.
func ItemValue(i courier.ItemPath) string {
	return strconv.Itoa(i.Loop) + ":" + courier.FormatIteration(i.Iteration)
}

// itemOf reads the text that ItemValue writes.
func itemOf(value string) (i courier.ItemPath, err error) {
	loop, path, _ := strings.Cut(value, ":")
	if i.Loop, err = strconv.Atoi(loop); err != nil {
		return i, err
	}
	i.Iteration, err = courier.ParseIteration(path)
	return i, err
}

// Read reads a form that was sent. If the form is invalid, the error is a [*problem.Error] that
// lists all problems. The caller sets By.
func Read(f url.Values) (*courier.ResumeOptions, error) {
	o := &courier.ResumeOptions{From: f.Get("from"), Force: f.Has("force"), Skip: f.Has("skip"), Elsewhere: f.Has("elsewhere")}
	var problems []string
	if v := f.Get("version"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			problems = append(problems, "The version must be a whole number, at least 1.")
		}
		o.Version = n
	}
	if v := f.Get("seq"); v != "" { // a link has none
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 1 {
			problems = append(problems, "The form does not say which state of the execution it belongs to. Open it again.")
		}
		o.Seq = n
	}
	object := func(name, what string) map[string]any {
		text := strings.TrimSpace(f.Get(name))
		if text == "" {
			return nil
		}
		var m map[string]any
		if err := jsontext.DecodeStrict([]byte(text), &m); err != nil {
			problems = append(problems, fmt.Sprintf("%s must be a JSON object: %v", what, err))
		}
		return m
	}
	o.Set = object("set", "The changed values")
	o.Outputs = object("outputs", "The outputs of the skipped step")
	items := func(name string) (list []courier.ItemPath) {
		for _, v := range f[name] {
			i, err := itemOf(v)
			if err != nil {
				problems = append(problems, "An item does not belong to this execution.")
				continue
			}
			list = append(list, i)
		}
		return list
	}
	o.Items, o.Accept, o.SkipItems, o.Rescue = items("item"), items("accept"), items("skip-item"), items("rescue")
	if len(problems) > 0 {
		p := problem.Invalid("The form has errors.")
		p.Problems = problems
		return nil, p
	}
	return o, nil
}

// runs says how many steps may run. Steps in loops may run many times.
func runs(report *courier.ResumeReport, tree *flow.Tree) string {
	text := fmt.Sprintf("%d steps", len(report.Steps))
	if len(report.Steps) == 1 {
		text = "1 step"
	}
	looped := 0
	for _, s := range report.Steps {
		if len(tree.Loops(s.Step)) > 0 {
			looped++
		}
	}
	switch looped {
	case 0:
		return text
	case len(report.Steps):
		text += ", for each remaining item of a loop"
	default:
		text += fmt.Sprintf(", %d of them for each remaining item of a loop", looped)
	}
	if items := report.Position.Iteration(); items != nil {
		text += "; the loop continues with item " + courier.FormatIteration(items)
	}
	return text
}

// ReportOf returns the report of a dry run in the form for a visitor. Sees says whether the visitor
// may see values.
func ReportOf(report *courier.ResumeReport, tree *flow.Tree, sees bool) *Report {
	r := &Report{ResumeReport: *report, Runs: runs(report, tree)}
	if !sees {
		r.Note, r.Config, r.ResumeReport.Values = "", nil, nil
	}
	if i := r.Position.Step; i < tree.Len() {
		for i > 0 && strings.EqualFold(tree.Spec(i).Type, flow.TypeEnd) {
			r.At, i = "the end of ", i-1
		}
		s := tree.Spec(i)
		r.At += courier.StepLabel(i, s.ID, s.Type) + format.InItem(nil, r.Position.Iteration())
	}
	for _, s := range r.Steps {
		if s.Repeated {
			r.Again = append(r.Again, courier.StepLabel(s.Step, s.ID, s.Type))
		}
	}
	for _, f := range r.Consumed {
		if text := f.Path; sees {
			r.Gone = append(r.Gone, text+", by step "+strconv.Itoa(f.Step))
		} else {
			r.Gone = append(r.Gone, "a file, by step "+strconv.Itoa(f.Step))
		}
	}
	if text, err := json.MarshalIndent(r.Config, "", "  "); err == nil && r.Config != nil {
		r.Text = string(text)
	}
	return r
}
