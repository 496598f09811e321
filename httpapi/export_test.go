package httpapi

import "time"

// A Route is what the tests see of a row of the table.
type Route struct {
	Method, Path, ID, Scope string
	Role                    Role // -1: nobody is asked
	Query                   []string
	Body                    bool
}

// Table returns the rows of the table.
func Table() (list []Route) {
	for i := range table {
		t := &table[i]
		r := Route{Method: t.method, Path: t.path, ID: t.id, Scope: string(t.on), Role: Role(t.role), Body: t.body != nil}
		for _, p := range t.query {
			r.Query = append(r.Query, p.name)
		}
		list = append(list, r)
	}
	return list
}

// OpenRole is the role of routes that ask nobody.
const OpenRole = Role(open)

// DiffOf is diffOf.
var DiffOf = diffOf

// CodeOf returns the code and the detail of the problem of an error.
func CodeOf(err error) (code, detail string) {
	p := problemOf(err)
	return p.code.name, p.Detail
}

// SetBodyTimeout sets how long bodies may take.
func (h *Handler) SetBodyTimeout(d time.Duration) { h.bodyTimeout = d }
