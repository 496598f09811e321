package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/metrics"
)

var update = flag.Bool("update", false, "write the lists of docs/metrics.md")

// list is the list of metrics that are about the whole store, or about a process.
func list(whole bool) string {
	var b strings.Builder
	title := "Of each process (sum)"
	if whole {
		title = "Of the whole store (max)"
	}
	fmt.Fprintf(&b, "## %s\n\n", title)
	for _, m := range metrics.All {
		if m.Whole != whole {
			continue
		}
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+strings.ReplaceAll(l.Name, ".", "_")+"`")
		}
		by := ""
		if len(labels) > 0 {
			by = " by " + strings.Join(labels, ", ")
		}
		fmt.Fprintf(&b, "- `%s` (%s%s): %s\n", m.PromName(), m.Kind, by, m.Help)
	}
	return b.String()
}

// TestPage: docs/metrics.md has all metrics as they are declared. With -update it is
// written.
func TestPage(t *testing.T) {
	const page = "../../docs/metrics.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "## Of the whole store")
	_, after, end := strings.Cut(rest, "\n\nOf a store in the process")
	if !ok || !end {
		t.Fatal("the page has no place for the lists")
	}
	want := before + list(true) + "\n" + list(false) + "\nOf a store in the process" + after
	if *update {
		err = os.WriteFile(page, []byte(want), 0o600)
	} else if want != string(text) {
		t.Error("the lists differ from the declarations: go test ./internal/metrics -run TestPage -update")
	}
	if err != nil {
		t.Fatal(err)
	}
}
