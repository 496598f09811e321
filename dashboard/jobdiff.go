package dashboard

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/desk"
)

// A diffView is what differs between two versions of a job or a chain. The template "diff"
// shows it.
type diffView struct {
	From, To string // what is compared, such as "version 3"
	Fields   []diffField
	Parts    []diffPart // steps, or members
	Cut      int        // how many parts are left out, since there are too many
}

// A diffField is a value that differs.
type diffField struct {
	Name         string // such as "config/remote_path"
	From, To     string // JSON
	IsNew, IsOld bool   // it was not there before, or is not there any more
}

// A diffPart is what has become of a step or a member.
type diffPart struct {
	Change string // added, removed, changed, moved
	Label  string // such as `step 3 "fetch" (sftp.download)`
	Place  string // such as "was step 2"
	Whole  string // the JSON of one that was added or removed
	Fields []diffField
}

// maxDiffParts is how many steps of a difference a page shows.
const maxDiffParts = 500

// diffOf returns what differs between two definitions of the same kind.
func diffOf(from, to courier.Definition, fromName, toName string) (*diffView, error) {
	was, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	d := desk.DiffOf(was, is)
	v := &diffView{From: fromName, To: toName, Fields: diffFields(d.Fields)}
	parts, what := d.Steps, "step"
	if len(d.Members) > 0 {
		parts, what = d.Members, "member"
	}
	for i := range parts {
		if len(v.Parts) == maxDiffParts {
			v.Cut = len(parts) - maxDiffParts
			break
		}
		v.Parts = append(v.Parts, diffPartOf(&parts[i], what))
	}
	return v, nil
}

// Same reports whether nothing differs.
func (v *diffView) Same() bool { return len(v.Fields)+len(v.Parts) == 0 }

func diffPartOf(d *desk.PartDiff, what string) diffPart {
	p := diffPart{Change: d.Change}
	index := d.To
	if index == nil {
		index = d.From
	}
	p.Label = what + " " + strconv.Itoa(*index)
	if d.ID != "" {
		p.Label += fmt.Sprintf(" %q", d.ID)
	}
	if d.Type != "" {
		p.Label += " (" + d.Type + ")"
	}
	if d.From != nil && d.To != nil && *d.From != *d.To {
		p.Place = "was " + what + " " + strconv.Itoa(*d.From)
	}
	if len(d.Fields) == 1 && d.Fields[0].Pointer == "" {
		whole := d.Fields[0].From
		if whole == nil {
			whole = d.Fields[0].To
		}
		var s courier.StepSpec
		if what == "step" && json.Unmarshal(whole, &s) == nil {
			whole, _ = s.MarshalJSON() // in the order of definitions; it was read from JSON
		}
		p.Whole = format.IndentJSON(whole)
		return p
	}
	p.Fields = diffFields(d.Fields)
	return p
}

func diffFields(list []desk.Difference) (fields []diffField) {
	for _, d := range list {
		fields = append(fields, diffField{Name: strings.TrimPrefix(d.Pointer, "/"), From: broken(d.From), To: broken(d.To), IsNew: d.From == nil, IsOld: d.To == nil})
	}
	return fields
}

// A jobDiffPage compares two versions of a job.
type jobDiffPage struct {
	Back, Versions string
	Diff           *diffView
	First          bool // the job has one version, and nothing to compare it with
}

func (c *call) jobDiff() (any, error) {
	name := c.r.PathValue("name")
	from, err := c.number("from", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	to, err := c.number("to", 0, 1, 1<<30)
	if err != nil {
		return nil, err
	}
	b, err := c.jobVersion(name, to)
	if err != nil {
		return nil, err
	}
	c.title = "Changes of " + format.Clip(80, name)
	p := &jobDiffPage{Back: c.link("jobs", name), Versions: c.link("jobs", name) + "?tab=versions"}
	if from == 0 {
		from = b.Version - 1
	}
	if p.First = from == 0; p.First {
		return p, nil
	}
	a, err := c.jobVersion(name, from)
	if err != nil {
		return nil, err
	}
	p.Diff, err = diffOf(&a, &b, "version "+strconv.Itoa(a.Version), "version "+strconv.Itoa(b.Version))
	return p, err
}
