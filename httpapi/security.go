package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A SecurityScheme says how a request proves who makes it, as the Security Scheme Object of
// OpenAPI 3.1 does. Generated clients and documentation read it; the service does not.
type SecurityScheme struct {
	// Type is "http", "apiKey", "mutualTLS" or "openIdConnect".
	Type        string
	Description string
	// Scheme is that of the header Authorization, such as "bearer" or "basic", for http.
	Scheme       string
	BearerFormat string // such as "JWT"
	// In and Name say where a key is, for apiKey: "header", "query" or "cookie", and the name
	// of the header, parameter or cookie.
	In   string
	Name string
	// OpenIDConnectURL is that of the discovery document, for openIdConnect.
	OpenIDConnectURL string
}

// check returns what is wrong with a scheme; empty if nothing is.
func (s *SecurityScheme) check() string {
	switch s.Type {
	case "http":
		if s.Scheme == "" {
			return `of the type "http" needs Scheme, such as "bearer"`
		}
	case "apiKey":
		if s.Name == "" || !slices.Contains([]string{"header", "query", "cookie"}, s.In) {
			return `of the type "apiKey" needs Name, and "header", "query" or "cookie" as In`
		}
	case "openIdConnect":
		if s.OpenIDConnectURL == "" {
			return `of the type "openIdConnect" needs OpenIDConnectURL`
		}
	case "mutualTLS":
	default:
		return `must have "http", "apiKey", "mutualTLS" or "openIdConnect" as Type`
	}
	return ""
}

// componentName is the form of a name in the document.
var componentName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// schemes returns the security schemes for the document, and what is wrong with those of the
// host, which are left out.
func (a *Access) schemes() (map[string]SecurityScheme, error) {
	if a.Schemes == nil {
		scheme, _, _ := strings.Cut(cmp.Or(a.Challenge, "Bearer"), " ")
		scheme = strings.ToLower(scheme)
		return map[string]SecurityScheme{scheme: {Type: "http", Scheme: scheme}}, nil
	}
	var problems []string
	good := make(map[string]SecurityScheme)
	for _, name := range slices.Sorted(maps.Keys(a.Schemes)) {
		s := a.Schemes[name]
		why := s.check()
		if !componentName.MatchString(name) {
			why = "must have a name of letters, digits, dots, dashes and underscores"
		}
		if why != "" {
			problems = append(problems, fmt.Sprintf("the scheme %q %s", name, why))
			continue
		}
		good[name] = s
	}
	if problems != nil {
		return good, fmt.Errorf("Options.Access.Schemes: %s", strings.Join(problems, "; "))
	}
	return good, nil
}

// object is the scheme in the document.
func (s *SecurityScheme) object() schema {
	o := schema{}
	for name, value := range map[string]string{
		"type": s.Type, "description": s.Description, "scheme": s.Scheme, "bearerFormat": s.BearerFormat, "in": s.In, "name": s.Name, "openIdConnectUrl": s.OpenIDConnectURL,
	} {
		if value != "" {
			o[name] = value
		}
	}
	return o
}

// secure adds security schemes to a document: one of them is enough for all operations but
// those that are open.
func (o schema) secure(schemes map[string]SecurityScheme) schema {
	objects, security := schema{}, []any{}
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		s := schemes[name]
		objects[name] = s.object()
		security = append(security, schema{name: []any{}})
	}
	o["components"].(schema)["securitySchemes"], o["security"] = objects, security
	return o
}
