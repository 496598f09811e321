package arch_test

import (
	"bytes"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var goBlock = regexp.MustCompile("(?s)```go\n(package main.*?)```")

// around is a function that makes the Go fragment of README.md complete.
const around = `package readme

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/store"
)

type none struct{}

func check(context.Context, *courier.Context, none) (none, error) { return none{}, nil }

func fragment(ctx context.Context, store store.Store, connections sftp.Connections, keys pgp.Keys, job courier.Job) error {
FRAGMENT
	_ = x
	return err
}
`

// TestReadme: README.md is short, and its Go fragment compiles. Package
// examples/killed tests the rest.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 120 {
		t.Errorf("README.md has %d lines, more than the 120 that people read", n)
	}
	m := regexp.MustCompile("(?s)```go\n(.*?)```").FindSubmatch(text)
	if m == nil {
		t.Fatal("README.md has no go block")
	}
	program := filepath.Join(t.TempDir(), "readme.go")
	if err := os.WriteFile(program, []byte(strings.Replace(around, "FRAGMENT", string(m[1]), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	goCommand(t, "vet", program)
}

var pictures = regexp.MustCompile(`(?:src|srcset)="([^"]*)"`)

// TestReadmePictures: README.md shows the dashboard, light and dark, and each picture has fewer
// than 200 KiB. TestReadmePicture of dashboard/browser takes them.
func TestReadmePictures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, m := range pictures.FindAllSubmatch(text, -1) {
		shown = append(shown, string(m[1]))
	}
	if want := []string{"docs/dashboard-dark.png", "docs/dashboard.png"}; !slices.Equal(shown, want) {
		t.Errorf("README.md shows %v, and not %v", shown, want)
	}
	for _, name := range shown {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if size, err := png.DecodeConfig(bytes.NewReader(b)); err != nil || size.Width < 1280 || len(b) >= 200<<10 {
			t.Errorf("%s has %d bytes and is %d pixels wide: %v; it must have fewer than 200 KiB and at least 1280 pixels", name, len(b), size.Width, err)
		}
	}
}

// TestStepProgram runs the program in the page about steps of one's own, and its tests.
func TestStepProgram(t *testing.T) {
	const page = "docs/how-to/write-a-step.md"
	runPage(t, page, "completed 2 lines\n")
	goCommand(t, "test", programs(t, page)...)
}

// TestPartnerProgram: the program in the page about partners, which needs a server, compiles.
func TestPartnerProgram(t *testing.T) {
	goCommand(t, "vet", programs(t, "docs/how-to/add-a-partner.md")...)
}

// runPage runs the first complete program in a page.
func runPage(t *testing.T, page, want string) {
	t.Helper()
	program := programs(t, page)[0]
	if out := goCommand(t, "run", program); out != want {
		t.Errorf("the program in %s: %s", page, out)
	}
	formatted := exec.Command("gofmt", "-l", program)
	if out, err := formatted.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt would change the program in %s: %v %s", page, err, out)
	}
}

// programs writes the complete files in a page: the first one is main.go, a second one main_test.go.
func programs(t *testing.T, page string) (files []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i, m := range goBlock.FindAllSubmatch(text, 2) {
		files = append(files, filepath.Join(dir, []string{"main.go", "main_test.go"}[i]))
		if err := os.WriteFile(files[i], m[1], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if files == nil {
		t.Fatalf("%s has no complete program in a go block", page)
	}
	return files
}

// goCommand runs the go command on files, and returns what it prints.
func goCommand(t *testing.T, verb string, files ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{verb}, files...)...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("go %s %v: %v\n%s", verb, files, err, out)
	}
	return string(out)
}
