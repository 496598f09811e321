package definition

import (
	"cmp"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/flow"
)

// An Entry is a name that a definition can use, in a list for the person who edits it.
type Entry struct{ Key, Doc string }

// Types returns the types of steps, by their keys.
func Types(reg *courier.Registry) (list []Entry) {
	for _, key := range reg.Keys() {
		if t, ok := reg.Lookup(key); ok && t.Key() == key {
			list = append(list, Entry{key, t.Doc()})
		}
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// Jobs returns the jobs, with the parameters that they accept.
func Jobs(jobs []courier.Job) (list []Entry) {
	for i := range jobs {
		e := Entry{jobs[i].Name, "Takes any parameters."}
		if params := flow.ReadParams(jobs[i].Params); params != nil {
			e.Doc = "Takes no parameters."
			if names := params.Names(); len(names) > 0 {
				e.Doc = "Takes " + strings.Join(names, ", ") + "."
			}
		}
		list = append(list, e)
	}
	return list
}

// FirstJob is the initial definition of a new job: a step of the first type.
func FirstJob(reg *courier.Registry) *courier.Job {
	step := courier.StepSpec{ID: "first", Type: "family.verb"}
	if list := Types(reg); len(list) > 0 {
		step.Type = list[0].Key
		t, _ := reg.Lookup(step.Type)
		for _, p := range t.Config().Properties {
			if p.Required {
				if step.Config == nil {
					step.Config = make(map[string]any)
				}
				step.Config[p.Name] = ""
			}
		}
	}
	return &courier.Job{Params: map[string]any{}, Steps: []courier.StepSpec{step}}
}

// FirstChain is the initial definition of a new chain: two members, one of which depends on the
// other. Their job is the first one that requires no parameter, or else the first one.
func FirstChain(jobs []courier.Job) *chain.Chain {
	name := ""
	for i := range jobs {
		free := true
		for _, d := range declared(jobs[i].Params) {
			free = free && (!d.Required || d.Default != nil)
		}
		if name = cmp.Or(name, jobs[i].Name); free {
			name = jobs[i].Name
			break
		}
	}
	return &chain.Chain{Params: map[string]any{}, Members: []chain.Member{
		{Name: "first", Job: cmp.Or(name, "name of a job")},
		{Name: "second", Job: cmp.Or(name, "name of a job"), DependsOn: []chain.Dependency{{Member: "first"}}},
	}}
}

// declared returns the declarations of parameters.
func declared(params map[string]any) (list []courier.Param) {
	if all := flow.ReadParams(params); all != nil {
		for _, name := range all.Names() {
			d, _ := all.Get(name)
			list = append(list, d)
		}
	}
	return list
}
