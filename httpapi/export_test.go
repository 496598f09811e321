package httpapi

import (
	"reflect"
	"strconv"
	"time"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/internal/schemadoc"
)

// A Route is what the tests see of a row of the table.
type Route struct {
	Method, Path, ID, Scope string
	Open                    bool // nobody is asked
	Rights                  access.Role
	Own                     bool // RightOwn is enough for the own
	Query                   []string
	Body                    bool
}

// Table returns the rows of the table.
func Table() (list []Route) {
	for i := range table {
		t := &table[i]
		r := Route{Method: t.method, Path: t.path, ID: t.id, Scope: string(t.on), Open: t.open, Rights: access.Role(t.need.Rights), Own: t.need.Own, Body: t.body != nil}
		for _, p := range t.query {
			r.Query = append(r.Query, p.name)
		}
		list = append(list, r)
	}
	return list
}

// CodeOf returns the code and the detail of the problem of an error.
func CodeOf(err error) (code, detail string) {
	p := problemOf(err)
	return p.code.name, p.Detail
}

// Document returns the OpenAPI document of a service with the default access.
func Document() []byte {
	schemes, _ := securitySchemes(new(access.Policy))
	return schemadoc.Text(secure(describe(table), schemes))
}

// SchemaOf returns the schema of a type, with those that it refers to where the document
// has them, and the types with MarshalJSON that have no form.
func SchemaOf(t reflect.Type) (text []byte, missing []string) {
	s := newSchemas()
	o := s.of(t)
	o["components"] = schema{"schemas": s.named}
	return schemadoc.Text(o), s.missing
}

// Forms returns the types with a form.
func Forms() (list []reflect.Type) {
	for t := range forms {
		list = append(list, t)
	}
	return list
}

// Enums returns the words of types whose values are some words.
func Enums() map[reflect.Type][]string { return enums }

// BodyTypes returns the types of all bodies and answers of the table.
func BodyTypes() (list []reflect.Type) {
	for i := range table {
		if table[i].body != nil {
			list = append(list, reflect.TypeOf(table[i].body))
		}
		for _, v := range table[i].answers {
			if v != nil {
				list = append(list, reflect.TypeOf(v))
			}
		}
	}
	return append(list, reflect.TypeFor[problem]())
}

// IsPage reports whether a type is a page.
var IsPage = isPage

// Codes returns the codes of problems, each with its status, its title and what to do.
func Codes() (list [][4]string) {
	for _, c := range codes {
		list = append(list, [4]string{c.name, strconv.Itoa(c.status), c.title, c.do})
	}
	return list
}

// SetBodyTimeout sets how long bodies may take.
func (h *Handler) SetBodyTimeout(d time.Duration) { h.bodyTimeout = d }
