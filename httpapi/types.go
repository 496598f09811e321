package httpapi

import (
	"net/http"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/schemadoc"
	"github.com/courierhq/courier/store"
)

// A StepTypeView is a step type of the engine.
type StepTypeView struct {
	Key            string          `json:"key"`
	Aliases        []string        `json:"aliases,omitempty"`
	Doc            string          `json:"doc,omitempty"`
	RepeatDoc      string          `json:"repeat_doc,omitempty"`  // what happens if the step is executed once more
	CleanupDoc     string          `json:"cleanup_doc,omitempty"` // what is removed after a failure, and what is kept
	TimeoutSeconds float64         `json:"timeout_seconds"`       // of an attempt, if the step has no timeout of its own; 0 means none
	StallSeconds   float64         `json:"stall_timeout_seconds"`
	Validates      bool            `json:"validates"` // a dry run can check it
	Config         *courier.Schema `json:"config"`
	Output         *courier.Schema `json:"output"`
}

// typeJob is for visitors with roles for some jobs only.
var typeJob = param{name: "job", kind: "string", does: "A job of which you are a viewer; needed by those who are not viewers of all jobs."}

var typeRoutes = []route{
	{
		method: "GET", path: "v1/step-types", id: "listStepTypes", group: "step-types", on: onBody, query: []param{typeJob},
		does: "Lists the step types with configurations and outputs.", answers: map[int]any{http.StatusOK: page[StepTypeView]{}}, do: (*call).listStepTypes,
	},
	schemaRoute("job"),
	schemaRoute("chain"),
	schemaRoute("schedule"),
	schemaRoute("monitor"),
	schemaRoute("subscription"),
	schemaRoute("calendar"),
	schemaRoute("expectation"),
}

func schemaRoute(kind string) route {
	return route{
		method: "GET", path: "v1/schema/" + kind + ".json", id: "schemaOf" + kind, group: "step-types", on: onBody, query: []param{typeJob},
		does:    "Returns the JSON Schema of a definition of kind " + kind + ", for editors. It offers the names of jobs and chains that you may see.",
		answers: map[int]any{http.StatusOK: map[string]any{}, http.StatusNotModified: nil}, media: "application/schema+json", do: func(c *call) error {
			if err := c.Need(c.ctx(), c.query.Get("job"), access.RightSee); err != nil {
				return err
			}
			names, err := c.names()
			if err != nil {
				return err
			}
			return c.taggedBody(schemadoc.Definition(kind, c.h.e.Registry(), names))
		},
	}
}

// maxNames is how many jobs, and how many chains, a schema suggests.
const maxNames = 1000

// names returns the names of the jobs and chains that the visitor may see.
func (c *call) names() (n schemadoc.Names, err error) {
	for after, examined := "", 0; examined < maxListed && len(n.Jobs) < maxNames; examined += maxNames {
		page, err := c.h.e.Jobs().Names(c.ctx(), store.DefinitionFilter{After: after, Limit: maxNames})
		if err != nil {
			return n, err
		}
		for _, name := range page {
			if after = name; len(n.Jobs) < maxNames && c.Can(c.ctx(), name, access.RightSee) {
				n.Jobs = append(n.Jobs, name)
			}
		}
		if len(page) < maxNames {
			break
		}
	}
	if !c.Can(c.ctx(), "", access.RightSee) {
		return n, nil
	}
	list, _, err := c.visible(c.Catalog("chain"), "", "", maxNames)
	n.Chains = mapped(list, func(d DefinitionEntry) string { return d.Name })
	return n, err
}

func (c *call) listStepTypes() error {
	if err := c.Need(c.ctx(), c.query.Get("job"), access.RightSee); err != nil {
		return err
	}
	reg := c.h.e.Registry()
	aliases := make(map[string][]string)
	var list []StepTypeView
	for _, key := range reg.Keys() {
		t, _ := reg.Lookup(key)
		if key != t.Key() {
			aliases[t.Key()] = append(aliases[t.Key()], key)
			continue
		}
		list = append(list, StepTypeView{
			Key: key, Doc: t.Doc(), RepeatDoc: t.RepeatDoc(), CleanupDoc: t.CleanupDoc(), TimeoutSeconds: t.Timeout().Seconds(), StallSeconds: t.Stall().Seconds(),
			Validates: t.Validates(), Config: t.Config(), Output: t.Output(),
		})
	}
	for i := range list {
		list[i].Aliases = aliases[list[i].Key]
	}
	return answerPage(c, list, "")
}
