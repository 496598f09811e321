package arch_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// prelude makes the fragments of pages complete: what they take for given is declared.
const prelude = `package fragments

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/pgstore"
)

var (
	ctx         context.Context
	e           *engine.Engine
	s           *pgstore.Store
	pool        *pgxpool.Pool
	h           *couriertest.Harness
	id          courier.ExecutionID
	reg         courier.Registry
	log         *slog.Logger
	t           *testing.T
)
`

// imports are the packages that fragments use.
var imports = []string{
	"context", "fmt", "errors", "time", "net/http", "encoding/json", "os", "testing", "embed",
	"github.com/jackc/pgx/v5", "github.com/jackc/pgx/v5/pgxpool",
	"github.com/courierhq/courier", "github.com/courierhq/courier/couriertest", "github.com/courierhq/courier/depot", "github.com/courierhq/courier/depot/depottest", "github.com/courierhq/courier/engine",
	"github.com/courierhq/courier/steps/azure", "github.com/courierhq/courier/steps/file", "github.com/courierhq/courier/steps/ftp",
	"github.com/courierhq/courier/steps/pgp", "github.com/courierhq/courier/steps/sftp", "github.com/courierhq/courier/steps/sftp/sftptest",
	"github.com/courierhq/courier/steps/steptest", "github.com/courierhq/courier/store", "github.com/courierhq/courier/store/memstore",
	"github.com/courierhq/courier/store/pgstore", "github.com/courierhq/courier/store/storetest",
	"github.com/courierhq/courier/store/storewrap", "github.com/courierhq/courier/webhook",
}

var (
	goFragment = regexp.MustCompile("(?ms)^ *```go\n(.*?)^ *```")
	// stale is what the compiler reports of a name that is gone, or of a call that has
	// changed. It reports more, since fragments are not complete.
	stale = regexp.MustCompile(`has no field or method|unknown field|arguments in call|cannot use|assignment mismatch|undefined: (azure|courier|couriertest|depot|depottest|engine|file|ftp|memstore|pgp|pgstore|sftp|sftptest|steptest|store|storetest|storewrap|webhook)\.`)
)

// TestFragments: the Go fragments of the pages name what exists, and call it as it is.
func TestFragments(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(root, "docs", "*", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"build", "-gcflags=-e", filepath.Join(dir, "prelude.go")}
	if err := os.WriteFile(args[2], []byte(prelude), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, m := range goFragment.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "package ") || filepath.Base(page) == "tutorial.md" {
				continue // it is run, or taken from a program that is
			}
			name := fmt.Sprintf("%s_%d.go", strings.TrimSuffix(filepath.Base(page), ".md"), i)
			source := complete(m[1], strings.TrimSuffix(strings.ReplaceAll(name, "-", "_"), ".go"))
			if source == "" {
				t.Errorf("%s: fragment %d can't be parsed:\n%s", page, i, m[1])
				continue
			}
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
		}
	}
	if len(args) < 20 {
		t.Fatalf("there are only %d fragments", len(args))
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatal("fragments compile that are not complete: is anything compiled?")
	}
	for line := range strings.Lines(string(out)) {
		if stale.MatchString(line) {
			t.Errorf("stale fragment: %s", filepath.Base(strings.TrimSpace(line)))
		}
	}
}

// complete returns a source file that holds a fragment; empty if it is no Go.
func complete(fragment, name string) string {
	head := "package fragments\n\nimport (\n"
	for _, path := range imports {
		head += fmt.Sprintf("\t%q\n", path)
	}
	head += ")\n\n"
	for _, form := range []string{"func _() {\n%s\n}\n", "%s", "var _ = %s\n", "var _ = engine.Options{\n%s\n}\n"} {
		source := head + fmt.Sprintf(form, strings.ReplaceAll(fragment, "//go:embed", "// embeds"))
		if _, err := parser.ParseFile(token.NewFileSet(), name, source, 0); err == nil {
			return source
		}
	}
	return ""
}
