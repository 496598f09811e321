package httpapi_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/internal/test/generated"
)

// The reference stands between these lines of the page.
const (
	referencePage  = "../docs/http-reference.md"
	referenceBegin = "<!-- Generated from the routes by: go test ./httpapi -run TestReference -update -->\n"
	referenceEnd   = "<!-- End of the generated part. -->\n"
)

// TestReference compares the reference in docs/http-reference.md with the routes. It is made anew
// with -update.
func TestReference(t *testing.T) {
	generated.Part(t, referencePage, referenceBegin, referenceEnd, reference(), *update)
}

// kinds are the kinds of definitions: routes of several kinds that are alike share a line.
var kinds = regexp.MustCompile(`\b(job|chain|calendar|schedule|monitor|expectation|subscription)s?\b`)

// ofAnyKind is a line with {kind} in place of a kind.
func ofAnyKind(line, kind string) string {
	if kind == "" {
		return line
	}
	return regexp.MustCompile(`\b`+kind+`(s?)\b`).ReplaceAllString(line, "{kind}$1")
}

// firstSentence is what a route has here of a summary; the OpenAPI document has the rest.
func firstSentence(s string) string {
	if first, _, more := strings.Cut(s, ". "); more {
		return first + "."
	}
	return s
}

// reference returns the lists of routes and of codes.
func reference() string {
	var b strings.Builder
	paths := document().Root["paths"].(map[string]any)
	byGroup := map[string][]httpapi.Route{}
	var groups []string
	operation := func(r httpapi.Route) map[string]any {
		path := "/" + strings.ReplaceAll(r.Path, "...}", "}")
		return paths[path].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
	}
	for _, r := range httpapi.Table() {
		group := operation(r)["tags"].([]any)[0].(string)
		if byGroup[group] == nil {
			groups = append(groups, group)
		}
		byGroup[group] = append(byGroup[group], r)
	}
	line := func(r httpapi.Route) string {
		o := operation(r)
		return fmt.Sprintf("- `%s %s` (%s): %s\n", r.Method, r.Path, o["x-courier-rights"], firstSentence(o["summary"].(string)))
	}
	alike := map[string][]string{} // the kinds of lines that differ in the kind alone
	for _, r := range httpapi.Table() {
		text := line(r)
		if kind := kinds.FindString(text); kind != "" {
			kind = strings.TrimSuffix(kind, "s")
			alike[ofAnyKind(text, kind)] = append(alike[ofAnyKind(text, kind)], kind)
		}
	}
	for _, group := range groups {
		var lines []string
		for _, r := range byGroup[group] {
			text := line(r)
			of := ofAnyKind(text, strings.TrimSuffix(kinds.FindString(text), "s"))
			switch list := alike[of]; {
			case len(list) > 3:
				text = of
			case len(list) > 1:
				text = strings.ReplaceAll(of, "{kind}", "{"+strings.Join(list, "|")+"}")
			}
			if !slices.Contains(lines, text) && !strings.Contains(b.String(), text) {
				lines = append(lines, text)
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(&b, "\n### Routes: %s\n\n%s", group, strings.Join(lines, ""))
		}
	}
	b.WriteString("\n### Roles and rights\n\n")
	for _, right := range access.Rights() {
		var list []string
		for _, r := range access.Roles()[1:] {
			if r.Role.Has(right.Role) {
				list = append(list, r.Name)
			}
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s\n", right.Name, strings.Join(list, ", "), right.Does)
	}
	b.WriteString("\n### Codes of problems\n\n`GET v1/problems/{code}` says what to do.\n\n")
	for _, c := range httpapi.Codes() {
		fmt.Fprintf(&b, "- `%s` (%s): %s\n", c[0], c[1], c[2])
	}
	b.WriteString("\n")
	return b.String()
}
