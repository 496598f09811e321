// Package values lists the values in scope of an execution, with the origin of each value and the
// entries of the job that refer to it.
package values

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/flow"
)

// A Row is a value.
type Row struct {
	Key     string
	Value   string // as JSON
	SetBy   string
	UsedBy  []string
	Changed bool // by an operator
}

// Rows lists values by their keys. Repairs are the repairs of the execution, and may be nil.
func Rows(all courier.Values, tree *flow.Tree, repairs *courier.Repairs) (rows []Row, err error) {
	used := usedBy(tree)
	changed := make(map[string]bool)
	if repairs != nil {
		for _, v := range repairs.Values {
			head := "params"
			if v.Step >= 0 && v.Step < tree.Len() {
				head = Head(tree, v.Step)
			}
			changed[head+"."+v.Name] = true
		}
	}
	for key, v := range all {
		head, name, _ := strings.Cut(key, ".")
		row := Row{Key: key, SetBy: head}
		switch step, ok := tree.Head(head); {
		case ok && Head(tree, step) != head:
			continue // the other name of a step that has an id
		case ok:
			s := tree.Spec(step)
			row.SetBy = courier.StepLabel(step, s.ID, s.Type)
		case head == "params":
			row.SetBy = "parameter"
		case head == "job":
			row.SetBy = "the execution"
		case head == "loop":
			row.SetBy = "the loop"
		}
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, err
		}
		row.Value, row.UsedBy, row.Changed = format.Clip(20_000, string(text)), used[head+"."+name], changed[key]
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	return rows, nil
}

// Head returns the name of a step in references: its id or, without one, its index.
func Head(t *flow.Tree, step int) string {
	if id := t.Spec(step).ID; id != "" {
		return id
	}
	return strconv.Itoa(step)
}

// usedBy returns the labels of the entries that refer to values, by key.
func usedBy(t *flow.Tree) map[string][]string {
	used := make(map[string][]string)
	for i := range t.Len() {
		spec := t.Spec(i)
		template, _ := flow.Compile(spec.Config)
		for _, r := range template.References() {
			head := r.Ref.Head
			if step, ok := t.Head(head); ok {
				head = Head(t, step)
			}
			key, label := head+"."+r.Ref.Name, courier.StepLabel(i, spec.ID, spec.Type)
			if list := used[key]; !slices.Contains(list, label) {
				used[key] = append(list, label)
			}
		}
	}
	return used
}
