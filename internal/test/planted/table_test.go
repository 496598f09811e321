package planted

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/courierhq/courier/internal/test/generated"
)

var update = flag.Bool("update", false, "write the table in README.md anew")

// The table stands between two lines of the page.
const (
	begin = "<!-- planted bugs: written by go test ./internal/test/planted -run ^TestTable$ -update -->\n"
	end   = "<!-- end of the planted bugs -->\n"
)

// TestTable compares the table of bugs in README.md with the files.
func TestTable(t *testing.T) {
	generated.Part(t, "README.md", begin, end, "\n"+table(bugs(t))+"\n", *update)
}

// table writes the bugs as a table in Markdown.
func table(list []*bug) string {
	var b strings.Builder
	b.WriteString("| | bug | breaks | found by |\n|---|---|---|---|\n")
	for _, x := range list {
		number, _, _ := strings.Cut(x.name, "-")
		var found []string
		for _, args := range x.found {
			found = append(found, "`"+cell(inWords(args))+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", number, cell(x.text), cell(x.breaks), strings.Join(found, "<br>"))
	}
	return b.String()
}

// cell keeps the bars of a text from ending the cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

var anchors = regexp.MustCompile(`[\^$]`)

// inWords shortens the arguments of go test to what tells the tests.
func inWords(args []string) string {
	var words []string
	if args[0] == "-C" {
		words, args = args[1:2:2], args[3:] // the module has just one package
	}
	for _, a := range args {
		if a != "-run" && !strings.HasPrefix(a, "-timeout") {
			words = append(words, anchors.ReplaceAllString(strings.TrimPrefix(a, "./"), ""))
		}
	}
	if words[0] == "." {
		words[0] = "courier"
	}
	return strings.Join(words, " ")
}

func TestTableOfBugs(t *testing.T) {
	list := []*bug{{name: "07-x", text: "a | b", breaks: "P3", found: [][]string{
		{".", "-run", "^TestA$|^TestB$"}, {"./flow"}, {"-C", "chaos", ".", "-run", "^TestC$", "-timeout=5m"},
	}}}
	want := "| | bug | breaks | found by |\n|---|---|---|---|\n| 07 | a \\| b | P3 | `courier TestA\\|TestB`<br>`flow`<br>`chaos TestC` |\n"
	if got := table(list); got != want {
		t.Errorf("table\n%swant\n%s", got, want)
	}
}
