package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

// page is the documentation whose lines are run.
const page = "../../docs/http-api.md"

// A line is a line with curl, and the status that the comment before it names.
type line struct {
	text   string
	status string
}

// linesOf returns the variables and the lines of the first block of code behind a heading.
func linesOf(t *testing.T, heading string) (vars []string, lines []line) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+heading+"\n")
	_, rest, _ = strings.Cut(rest, "\n```\n")
	block, _, _ := strings.Cut(rest, "\n```\n")
	answer, status := regexp.MustCompile(`The answer is ([1-5][0-9][0-9])`), ""
	for l := range strings.SplitSeq(block, "\n") {
		switch name, value, _ := strings.Cut(l, "="); {
		case strings.HasPrefix(l, "#"):
			m := answer.FindStringSubmatch(l)
			if m == nil {
				t.Fatalf("%s: %q does not say what the answer is", page, l)
			}
			status = m[1]
		case strings.HasPrefix(l, "curl "):
			lines = append(lines, line{l, status})
		case l != "":
			vars = append(vars, "$"+name, strings.Trim(value, "'"))
		}
	}
	return vars, lines
}

// words splits a line as a shell does, whose quotes it takes away.
func words(l string) (list []string) {
	for _, w := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(l, -1) {
		list = append(list, strings.Trim(w, `'"`))
	}
	return list
}

// request is the request that curl makes of a line. It knows the options that the page uses.
func request(t *testing.T, l string) *http.Request {
	t.Helper()
	method, target, body, head := "", "", "", http.Header{}
	for list := words(l)[1:]; len(list) > 0; list = list[1:] {
		option := list[0]
		switch option {
		case "-i", "-N":
			continue
		case "-X", "-H", "-d":
			list = list[1:]
		}
		switch {
		case option == "-X":
			method = list[0]
		case option == "-H":
			name, value, _ := strings.Cut(list[0], ": ")
			head.Set(name, value)
		case option == "-d":
			body = list[0]
		case strings.HasPrefix(option, "-"):
			t.Fatalf("%s: this test does not know the option %s of curl", page, option)
		default:
			target = option
		}
	}
	if method == "" && body != "" {
		method = http.MethodPost
	}
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Header, r.RemoteAddr = head, "127.0.0.1:1000"
	return r
}

// TestPage runs the lines of "Five minutes with curl" in their order.
func TestPage(t *testing.T) {
	vars, lines := linesOf(t, "## Five minutes with curl")
	if len(lines) < 8 {
		t.Fatalf("%s has %d lines with curl", page, len(lines))
	}
	virtual(t, func(t *testing.T, c *client) {
		first := ""
		for _, l := range lines {
			// Twice, since a value can have another variable in it.
			text := strings.NewReplacer(append(vars, "$id", first, "TOKEN", c.svc.policy.Token())...).Replace(l.text)
			text = strings.NewReplacer(append(vars, "TOKEN", c.svc.policy.Token())...).Replace(text)
			rec := httptest.NewRecorder()
			c.svc.routes.ServeHTTP(rec, request(t, text))
			if got := rec.Result().Status[:3]; got != l.status && !c.lacks(text) {
				t.Errorf("%s\n%s %s; the page says %s", text, got, rec.Body, l.status)
			}
			var v view
			if first == "" && json.Unmarshal(rec.Body.Bytes(), &v) == nil {
				first = string(v.ID)
			}
		}
	})
}

// lacks reports whether a line is about the stream of events, and the service has none.
func (c *client) lacks(text string) bool {
	c.t.Helper()
	var document struct{ Paths map[string]any }
	c.do("GET", "/courier/api/v1/openapi.json", "", http.StatusOK, &document)
	return strings.HasSuffix(text, "/events") && document.Paths["/v1/executions/{id}/events"] == nil
}
