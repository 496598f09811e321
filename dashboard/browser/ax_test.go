package browser

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

var update = flag.Bool("update", false, "write the trees of accessibility in testdata anew")

// presented are the roles that people go by who do not see the page; the rest is text.
var presented = []string{
	"banner", "navigation", "main", "region", "search", "form", "group", "heading", "link", "button", "DisclosureTriangle", "textbox", "searchbox", "combobox", "checkbox", "radio",
	"table", "columnheader", "rowheader", "status", "alert", "progressbar", "image",
}

// named are the roles that are of no use without a name.
var named = []string{"navigation", "region", "heading", "link", "button", "DisclosureTriangle", "textbox", "searchbox", "combobox", "checkbox", "radio", "table", "progressbar"}

// faults returns what people meet on a page who do not see it.
func faults(tree []chromium.Node) (list []string) {
	count := make(map[string]int)
	for _, n := range tree {
		count[n.Role]++
		if n.Role == "heading" && n.Properties["level"] == "1" {
			count["h1"]++
		}
		if slices.Contains(named, n.Role) && strings.TrimSpace(n.Name) == "" {
			list = append(list, "no name: "+strings.TrimSpace(n.String()))
		}
	}
	for _, role := range []string{"main", "banner", "h1"} {
		if count[role] != 1 {
			list = append(list, role+" is not there once")
		}
	}
	return list
}

var (
	ids     = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	numbers = regexp.MustCompile(`\d[\d.,:-]*`)
	lasting = regexp.MustCompile(`(< )?# (ms|s|m|min|h|d)\b( # (s|m|min|h)\b)?`)
)

// outline returns a tree as text, without what differs from run to run.
func outline(tree []chromium.Node) string {
	var b strings.Builder
	for _, n := range tree {
		if slices.Contains(presented, n.Role) {
			line := lasting.ReplaceAllString(numbers.ReplaceAllString(ids.ReplaceAllString(n.String(), "ID"), "#"), "# t")
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	return b.String()
}

// TestAccessibility compares names, roles and order of the main pages with those that were
// looked at. What has changed on purpose is written by -update.
func TestAccessibility(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	p := b.Page(t)
	base := s.mounts(t)[0].base
	for name, at := range map[string]string{
		"executions": "executions?where=state%3Afailed+job%3Ainvoices",
		"execution":  "executions/" + string(s.By["items"]),
		"resume":     "executions/" + string(s.By["items"]) + "/resume",
		"job":        "jobs/invoices",
		"run":        "jobs/invoices/run",
		"chain":      "chains/daily",
		"chain-run":  "chains/daily/run",
		"chain-edit": "chains/daily/edit",
		"search":     "search?q=inv-0426",
		"help":       "help",
	} {
		p.Open(base + at)
		p.WaitFor(`!document.querySelector("main[data-live]") || document.querySelector("button.live")`, 0)
		got := outline(p.AX())
		file := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s is presented as\n%s\nand in %s it is\n%s", at, got, file, want)
		}
	}
}
