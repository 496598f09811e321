package dashboard

import (
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard/internal/glossary"
)

var helpPages = []page{{
	path: "help", op: "help", on: onVisible, title: "Help", nav: "Help", group: "Administration", key: "?", file: "help", scripts: []string{"switch"}, data: (*call).help,
}}

// A helpPage is the page of keys, words, states and roles.
type helpPage struct {
	Keys   []glossary.Key
	States []glossary.State
	Words  []glossary.Word
	Roles  []roleRow
}

type roleRow struct {
	Name, Text string
	Yours      bool // for all jobs
}

func (c *call) help() (any, error) {
	p := &helpPage{Keys: glossary.Keys, States: glossary.States, Words: glossary.Words}
	yours := c.Role(c.ctx(), "")
	for _, r := range access.Roles()[1:] {
		p.Roles = append(p.Roles, roleRow{r.Name, r.Does, r.Role == yours})
	}
	return p, nil
}
