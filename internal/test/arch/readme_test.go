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
	cmd := exec.Command("go", "vet", program)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the fragment in README.md: %v\n%s", err, out)
	}
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

// TestMonitorsProgram runs the complete program in the page about monitors.
func TestMonitorsProgram(t *testing.T) {
	runPage(t, "docs/monitors.md", "completed by monitor:invoices 1 file\n")
}

// TestFlowProgram runs the complete program in the page about control flow.
func TestFlowProgram(t *testing.T) {
	runPage(t, "docs/flow.md", "completed a.csv b.csv.zip\n")
}

// runPage runs the complete program in a page.
func runPage(t *testing.T, page, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	m := goBlock.FindSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no complete program in a go block", page)
	}
	program := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(program, m[1], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "run", program)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("the program in %s: %v\n%s", page, err, out)
	}
	formatted := exec.Command("gofmt", "-l", program)
	if out, err := formatted.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("gofmt would change the program in %s: %v %s", page, err, out)
	}
}
