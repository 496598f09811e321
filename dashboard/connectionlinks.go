package dashboard

import "github.com/courierhq/courier"

// connectionTarget returns the name of a connection and the reference of its page. The reference is
// empty if the visitor may not see it.
func (c *call) connectionTarget(id string) target {
	t := target{Kind: "connection", Name: id}
	if id != "" && c.hasPage("connections/{name}") {
		t.Href = c.link("connections", id)
	}
	return t
}

// stepConnection returns the connection that a step of the execution names, if the definition can
// be read.
func (c *call) stepConnection(x *courier.Execution, step int) target {
	if v, err := c.parsed(x); err == nil && step >= 0 && step < len(v.Job.Steps) {
		return c.connectionTarget(connectionOf(&v.Job.Steps[step]))
	}
	return target{}
}
