package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/courierhq/courier/internal/schemadoc"
)

// about is the text at the beginning of the document.
const about = `The HTTP API of an engine of Courier.

**Paths** are below the mount of the API, which is the directory above that of this document: the reference of the server is relative to it. A route of GET answers HEAD too. A path that is not here has the answer 404 with a problem document; a method that is not here has 405, and the header Allow.

**Access** is decided by the service that mounts the API: it says who makes a request, and so which credentials are sent (the security schemes), and which rights that gives. x-courier-rights are the rights that an operation needs, all of them: start, override, dry-run, own, see, values, operate, edit, admin; "or own" means that the right own is enough for what the caller has started itself; any means that it is enough to be known, and open that nobody is asked. x-courier-scope says for what the rights are needed: a job, the job of an execution, all jobs, what is visible (the answer has what the caller may see), or the job that the body or the stored definition is about. What the caller may not see has the same answer as what is not there.

**Problems** are documents as of RFC 9457. A program can rely on the code. Each operation lists the codes of its answers; besides them the answer 500 with the code internal is a mistake of the service.

**Bodies** of requests are strict: fields that are not here, and repeated ones, are refused, as are parameters of the URL. Answers can have more fields in later versions, and words more values.`

// document makes the OpenAPI document of the table of routes.
func (h *Handler) document() []byte {
	schemes, _ := securitySchemes(&h.opt.Access) // New has logged the error
	text := schemadoc.Text(secure(describe(table), schemes))
	sum := sha256.Sum256(text)
	h.openAPITag = `"` + hex.EncodeToString(sum[:12]) + `"`
	return append(text, '\n')
}

// A description is an OpenAPI document that is being made.
type description struct {
	schemas   *schemas
	responses schema
}

// describe returns the OpenAPI document of routes.
func describe(routes []route) schema {
	d := description{newSchemas(), schema{}}
	d.schemas.closed = true
	for i := range routes {
		d.schemas.body(&routes[i]) // before the answers, which may have the same type
	}
	d.schemas.closed = false
	paths, tags := schema{}, []any{}
	for i := range routes {
		t := &routes[i]
		path := "/" + strings.ReplaceAll(t.path, "...}", "}")
		if paths[path] == nil {
			paths[path] = schema{}
		}
		paths[path].(schema)[strings.ToLower(t.method)] = d.operation(t)
		if tag := (schema{"name": t.group}); !slices.ContainsFunc(tags, func(o any) bool { return reflect.DeepEqual(o, tag) }) {
			tags = append(tags, tag)
		}
	}
	d.problem([]*code{codeInternal})
	return schema{
		"openapi":           "3.1.0",
		"jsonSchemaDialect": schemadoc.Draft2020,
		"info":              schema{"title": "Courier", "version": "v1", "description": about, "license": schema{"name": "MIT", "identifier": "MIT"}},
		"servers":           []any{schema{"url": "..", "description": "The mount of the API, relative to this document."}},
		"tags":              tags,
		"paths":             paths,
		"components":        schema{"schemas": d.schemas.named, "responses": d.responses, "headers": headers},
	}
}

// operation returns the part of the document about a route.
func (d *description) operation(t *route) schema {
	o := schema{
		"operationId": t.id, "summary": t.does, "tags": []string{t.group}, "responses": d.answers(t), "x-courier-rights": t.rights(),
	}
	if t.open {
		o["security"] = []any{}
	} else {
		o["x-courier-scope"] = string(t.on)
	}
	if list := t.parameters(); len(list) > 0 {
		o["parameters"] = list
	}
	if t.body != nil {
		content := schema{"application/json": schema{"schema": d.schemas.body(t)}}
		if t.upload {
			content[formMedia] = schema{"schema": formSchema}
		}
		o["requestBody"] = schema{"required": !t.optional, "content": content}
	}
	return o
}

// formSchema is the schema of a form with files, with its parts by their names.
var formSchema = schema{
	"type": "object",
	"properties": schema{
		paramsField: schema{"type": "object", "description": "Parameters, as an object in JSON."},
		userField:   schema{"type": "string", "description": "Who makes the request, or left out."},
	},
	"additionalProperties": schema{"description": "A file, if the part has a file name, and otherwise a parameter."},
}

// rights returns the rights that a route needs, in words.
func (t *route) rights() string {
	if t.open {
		return "open"
	}
	return t.need.String()
}

// parameters returns the parameters of a route in path, query and headers.
func (t *route) parameters() (list []any) {
	for name := range t.wildcards() {
		list = append(list, schema{"name": name, "in": "path", "required": true, "schema": schema{"type": "string"}})
	}
	for i := range t.query {
		list = append(list, t.query[i].in("query"))
	}
	for i := range t.headers {
		list = append(list, t.headers[i].in("header"))
	}
	if _, tagged := t.answers[http.StatusNotModified]; tagged && !t.hasHeader("If-None-Match") {
		p := param{name: "If-None-Match", kind: "string", does: "The ETag of an answer that the caller has: if it is still the same, the answer is 304."}
		list = append(list, p.in("header"))
	}
	return list
}

func (t *route) hasHeader(name string) bool {
	return slices.ContainsFunc(t.headers, func(p param) bool { return p.name == name })
}

// in returns the description of a parameter, in the path, the query or the header.
func (p *param) in(place string) schema {
	o := schema{"type": p.kind}
	if p.enum != nil {
		o["enum"] = p.enum
	}
	if b, ok := bounds[p.name]; ok && p.kind == "integer" {
		o["minimum"], o["maximum"] = b[0], b[1]
	}
	if p.many {
		o = schema{"type": "array", "items": o}
	}
	return schema{"name": p.name, "in": place, "description": p.does, "schema": o}
}

// headers are the headers of answers.
var headers = schema{
	"ETag":               always(header("The version of what the answer shows, for If-None-Match and If-Match.")),
	"Content-Range":      always(header("Which bytes of the file the answer has, and how many there are.")),
	"Link":               header(`The next page of the list, as <reference>; rel="next". The last page has none.`),
	"Location":           always(header("Where the thing is, relative to the URL of the request.")),
	"Preference-Applied": header("wait=N, if the caller asked for that."),
	"Retry-After":        always(header("In how many seconds the request may succeed.")),
	"WWW-Authenticate":   always(header("Which credentials the service asks for.")),
}

func header(does string) schema {
	return schema{"description": does, "schema": schema{"type": "string"}}
}

// always marks a header as present in each answer.
func always(header schema) schema {
	header["required"] = true
	return header
}

// headersOf returns the names of the headers that a successful answer of a route can have.
func (t *route) headersOf(status int) []string {
	list := slices.Clone(t.sets)
	body := t.answers[status]
	if _, tagged := t.answers[http.StatusNotModified]; tagged || t.hasHeader("If-Match") {
		list = append(list, "ETag")
	}
	if body != nil && isPage(reflect.TypeOf(body)) && slices.ContainsFunc(t.query, func(p param) bool { return p.name == "cursor" }) {
		list = append(list, "Link")
	}
	switch {
	case t.group != resultsGroup:
	case status == http.StatusAccepted:
		return []string{"Retry-After"}
	case status == http.StatusPartialContent:
		list = append(list, "Content-Range")
	}
	if t.hasHeader("Prefer") {
		list = append(list, "Preference-Applied")
	}
	return list
}

// headerRefs returns references to headers by their names.
func headerRefs(names []string) schema {
	o := schema{}
	for _, name := range names {
		o[name] = schema{"$ref": "#/components/headers/" + name}
	}
	return o
}

// answers returns the answers of a route, problems included.
func (d *description) answers(t *route) schema {
	all := schema{"default": schema{"$ref": "#/components/responses/internal"}}
	for _, status := range slices.Sorted(maps.Keys(t.answers)) {
		body := t.answers[status]
		o := schema{"description": http.StatusText(status)}
		if list := t.headersOf(status); len(list) > 0 {
			o["headers"] = headerRefs(list)
		}
		if body != nil {
			o["content"] = d.content(t, status, reflect.TypeOf(body))
		}
		all[strconv.Itoa(status)] = o
	}
	for status, list := range t.codes() {
		name := strconv.Itoa(status)
		ref := d.problem(list)
		if success, ok := all[name].(schema); ok { // the answer has two forms
			o := d.responses[responseName(list)].(schema)
			success["content"].(schema)[problemMedia] = o["content"].(schema)[problemMedia]
			continue
		}
		all[name] = ref
	}
	return all
}

// binary is the type of answers that are files.
type binary string

const binaryMedia = "application/octet-stream"

// content returns the media types of an answer: JSON, a text of another media type, or both if a
// text can be sent but the type of the body is not a text.
func (d *description) content(t *route, status int, body reflect.Type) schema {
	if body == reflect.TypeFor[binary]() {
		return schema{binaryMedia: schema{}}
	}
	value := schema{"schema": d.schemas.of(body)}
	switch {
	case t.media == zipMedia && status == http.StatusOK:
		return schema{"application/json": value, zipMedia: schema{}}
	case t.media == "" || t.media == zipMedia:
		return schema{"application/json": value}
	case strings.HasSuffix(t.media, "json") || body.Kind() == reflect.String:
		return schema{t.media: value}
	}
	return schema{"application/json": value, t.media: schema{"schema": schema{"type": "string"}}}
}

const problemMedia = "application/problem+json"

// codes returns the codes of the problems that a route can answer with, by status.
func (t *route) codes() map[int][]*code {
	list := []*code{codeInvalid}
	if !t.open {
		list = append(list, codeUnknown, codeForbidden, codeNotFound, codeUnsupported, codeUnavailable)
		if t.method != http.MethodGet {
			list = append(list, codeJournal)
		}
	} else if strings.Contains(t.path, "{") {
		list = append(list, codeNotFound)
	}
	if t.body != nil {
		list = append(list, codeTooLarge, codeMediaType)
	}
	by := make(map[int][]*code)
	for _, c := range append(list, t.problems...) {
		if !slices.Contains(by[c.status], c) {
			by[c.status] = append(by[c.status], c)
		}
	}
	for _, list := range by {
		slices.SortFunc(list, func(a, b *code) int { return strings.Compare(a.name, b.name) })
	}
	return by
}

// responseName returns the name of the answer that can have these codes.
func responseName(list []*code) string {
	names := make([]string, len(list))
	for i, c := range list {
		names[i] = c.name
	}
	return strings.Join(names, ".")
}

// problem returns the reference to the answer that can have these codes, which all have the same
// status.
func (d *description) problem(list []*code) schema {
	name := responseName(list)
	if d.responses[name] == nil {
		var names, titles []string
		for _, c := range list {
			names = append(names, c.name)
			titles = append(titles, c.name+": "+c.title+". "+c.do)
		}
		o := d.schemas.of(reflect.TypeFor[problem]())
		o["properties"] = schema{"code": schema{"enum": names}}
		response := schema{"description": strings.Join(titles, "\n\n"), "content": schema{problemMedia: schema{"schema": o}}}
		switch list[0].status {
		case http.StatusRequestedRangeNotSatisfiable:
			response["headers"] = headerRefs([]string{"Content-Range"})
		case http.StatusUnauthorized:
			response["headers"] = headerRefs([]string{"WWW-Authenticate"})
		case http.StatusServiceUnavailable:
			response["headers"] = headerRefs([]string{"Retry-After"})
		}
		d.responses[name] = response
	}
	return schema{"$ref": "#/components/responses/" + name}
}
