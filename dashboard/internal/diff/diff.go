// Package diff lists the differences between two versions of a job or a chain.
package diff

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/internal/definitiondiff"
)

// A View has the differences between two versions of a job or a chain. The template "diff" shows
// it.
type View struct {
	From, To string // what is compared, such as "version 3"
	Fields   []Field
	Parts    []Part // steps, or members
	Cut      int    // number of parts that are left out, because they are too many
}

// A Field is a value that differs.
type Field struct {
	Name         string // such as "config/remote_path"
	From, To     string // JSON
	IsNew, IsOld bool   // it was added or removed
}

// A Part is a step or a member that differs.
type Part struct {
	Change string // added, removed, changed, moved
	Label  string // such as `step 3 "fetch" (sftp.download)`
	Place  string // such as "was step 2"
	Whole  string // the JSON of one that was added or removed
	Fields []Field
}

// maxParts is how many steps of a difference a page shows.
const maxParts = 500

// Of returns the differences between two definitions of the same kind.
func Of(from, to courier.Definition, fromName, toName string) (*View, error) {
	was, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	is, err := json.Marshal(to)
	if err != nil {
		return nil, err
	}
	d := definitiondiff.Of(was, is)
	v := &View{From: fromName, To: toName, Fields: fieldsOf(d.Fields)}
	parts, what := d.Steps, "step"
	if len(d.Members) > 0 {
		parts, what = d.Members, "member"
	}
	for i := range parts {
		if len(v.Parts) == maxParts {
			v.Cut = len(parts) - maxParts
			break
		}
		v.Parts = append(v.Parts, partOf(&parts[i], what))
	}
	return v, nil
}

// Same reports whether nothing differs.
func (v *View) Same() bool { return len(v.Fields)+len(v.Parts) == 0 }

func partOf(d *definitiondiff.PartDiff, what string) Part {
	p := Part{Change: d.Change}
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
		p.Whole = inOrder(whole, what)
		return p
	}
	p.Fields = fieldsOf(d.Fields)
	return p
}

// inOrder returns the JSON of a step or a member with its fields in the order of definitions.
func inOrder(raw json.RawMessage, what string) string {
	var s courier.StepSpec
	var m chain.Member
	switch {
	case what == "step" && json.Unmarshal(raw, &s) == nil:
		return format.JSON(s)
	case what == "member" && json.Unmarshal(raw, &m) == nil:
		return format.JSON(m)
	}
	return format.IndentJSON(raw)
}

func fieldsOf(list []definitiondiff.Difference) (fields []Field) {
	for _, d := range list {
		fields = append(fields, Field{Name: strings.TrimPrefix(d.Pointer, "/"), From: format.BreakJSON(d.From), To: format.BreakJSON(d.To), IsNew: d.From == nil, IsOld: d.To == nil})
	}
	return fields
}

// A Change is a changed value.
type Change struct {
	Place, Was, Now string // as JSON; empty if there was or is no value
}

// Changes returns a difference as one list of values.
func Changes(d definitiondiff.Diff) (rows []Change) {
	add := func(place string, fields []definitiondiff.Difference) {
		for _, f := range fields {
			rows = append(rows, Change{place + f.Pointer, string(f.From), string(f.To)})
		}
	}
	add("", d.Fields)
	for _, list := range []struct {
		noun  string
		parts []definitiondiff.PartDiff
	}{{"step", d.Steps}, {"member", d.Members}} {
		for _, x := range list.parts {
			place := list.noun + " " + x.ID
			if x.ID == "" && x.To != nil {
				place += strconv.Itoa(*x.To)
			} else if x.ID == "" && x.From != nil {
				place += strconv.Itoa(*x.From)
			}
			if x.Change != "changed" {
				place += ", " + x.Change
			}
			if len(x.Fields) == 0 {
				rows = append(rows, Change{Place: place})
				continue
			}
			add(place+" ", x.Fields)
		}
	}
	return rows
}
