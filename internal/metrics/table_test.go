package metrics_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/metrics"
)

var update = flag.Bool("update", false, "write the tables of docs/metrics.md")

// table is the table of metrics that are about the whole store, or about a process.
func table(whole bool) string {
	var b strings.Builder
	title := "of each process (sum)"
	if whole {
		title = "of the whole store (max)"
	}
	fmt.Fprintf(&b, "| %s | labels | |\n|---|---|---|\n", title)
	for _, m := range metrics.All {
		if m.Whole != whole {
			continue
		}
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+strings.ReplaceAll(l.Name, ".", "_")+"`")
		}
		fmt.Fprintf(&b, "| `%s` (%s) | %s | %s |\n", m.PromName(), m.Kind, strings.Join(labels, ", "), m.Help)
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
	before, rest, ok := strings.Cut(string(text), "| of the whole store")
	_, after, end := strings.Cut(rest, "\n\nOf a store in the process")
	if !ok || !end {
		t.Fatal("the page has no place for the tables")
	}
	want := before + table(true) + "\n" + table(false) + "\nOf a store in the process" + after
	if *update {
		err = os.WriteFile(page, []byte(want), 0o600)
	} else if want != string(text) {
		t.Error("the tables differ from the declarations: go test ./internal/metrics -run TestPage -update")
	}
	if err != nil {
		t.Fatal(err)
	}
}
