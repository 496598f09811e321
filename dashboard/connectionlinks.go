package dashboard

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/filter"
)

// connectionTarget returns the name of a connection with the reference of its page: of the list of
// connections with that one, if there are no pages of single ones. The reference is empty for who
// may see none of them.
func (c *call) connectionTarget(id string) target {
	t := target{Kind: "connection", Name: id}
	switch {
	case id == "" || !c.hasPage("connections"):
	case c.hasPage("connections/{name}"):
		t.Href = c.link("connections", id)
	default:
		t.Href = c.link("connections") + "?" + query(textParam, filter.TextOf(id))
	}
	return t
}

// stepConnection returns the connection that a step of the execution names, as far as its
// definition can be read.
func (c *call) stepConnection(x *courier.Execution, step int) target {
	if v, err := c.parsed(x); err == nil && step >= 0 && step < len(v.Job.Steps) {
		return c.connectionTarget(connectionOf(&v.Job.Steps[step]))
	}
	return target{}
}
