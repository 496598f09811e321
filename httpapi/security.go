package httpapi

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/courierhq/courier/access"
)

// wrongScheme returns what is wrong with a scheme. It is empty if the scheme is valid.
func wrongScheme(s *access.SecurityScheme) string {
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

// securitySchemes returns the security schemes for the document, and an error for the invalid
// schemes of the host, which are left out.
func securitySchemes(p *access.Policy) (map[string]access.SecurityScheme, error) {
	if p.Schemes == nil {
		scheme, _, _ := strings.Cut(cmp.Or(p.Challenge, "Bearer"), " ")
		scheme = strings.ToLower(scheme)
		return map[string]access.SecurityScheme{scheme: {Type: "http", Scheme: scheme}}, nil
	}
	var problems []string
	good := make(map[string]access.SecurityScheme)
	for _, name := range slices.Sorted(maps.Keys(p.Schemes)) {
		s := p.Schemes[name]
		why := wrongScheme(&s)
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

// schemeObject is a scheme in the document.
func schemeObject(s *access.SecurityScheme) schema {
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

// secure adds security schemes to a document. Each operation needs one of them, except open
// operations.
func secure(document schema, schemes map[string]access.SecurityScheme) schema {
	objects, security := schema{}, []any{}
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		s := schemes[name]
		objects[name] = schemeObject(&s)
		security = append(security, schema{name: []any{}})
	}
	document["components"].(schema)["securitySchemes"], document["security"] = objects, security
	return document
}
