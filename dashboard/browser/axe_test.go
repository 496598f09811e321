package browser

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// The package of npm that has axe, and the SHA-512 of its file, as npm writes it.
const (
	axePackage = "axe-core@4.14.1"
	axeSum     = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
)

// axe returns the script of axe, which npm fetches from the registry that it is configured with.
func axe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "npm", "pack", axePackage, "--pack-destination", dir, "--cache", filepath.Join(dir, "cache"),
		"--ignore-scripts", "--no-update-notifier", "--loglevel", "error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm pack %s (Debian package npm; it asks a registry): %v: %s", axePackage, err, out)
	}
	file, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(axePackage, "@", "-")+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if sum := sha512.Sum512(file); base64.StdEncoding.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("%s has the SHA-512 %s, and not %s", axePackage, base64.StdEncoding.EncodeToString(sum[:]), axeSum)
	}
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err != nil {
			t.Fatalf("%s lacks axe.min.js: %v", axePackage, err)
		}
		if h.Name == "package/axe.min.js" {
			script, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			return string(script)
		}
	}
}

// What axe looks for: the rules of WCAG 2.2 A and AA, its best practices, and one that it counts
// as an experiment. All of them are looked at on a light page of a desk. A width changes no
// color, and a theme nothing else.
const (
	auditAll    = `{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: {"label-content-name-mismatch": {enabled: true}}}`
	auditLayout = `{runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: {"label-content-name-mismatch": {enabled: true}, "color-contrast": {enabled: false}}}`
	auditColors = `{runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}}`

	audit = `axe.run(document, {...%s, resultTypes: ["violations"], preload: false}).then(r => r.violations.flatMap(
		v => v.nodes.map(n => v.id + ": " + n.html.slice(0, 200) + ": " + n.failureSummary.replace(/\s+/g, " ").slice(0, 300))))`
)

// audits are how TestAxe looks at each page.
var audits = []struct {
	name   string
	device chromium.Device
	rules  string
}{
	{"light", chromium.Device{}, auditAll},
	{"dark", chromium.Device{Dark: true}, auditColors},
	{"dark telephone", chromium.Device{Width: 390, Height: 844, Mobile: true, Dark: true}, auditColors},
	{"light telephone", chromium.Device{Width: 390, Height: 844, Mobile: true}, auditLayout},
}

// kinds returns the first address of each page, and of each part of it.
func (s *site) kinds() (list []address) {
	seen := make(map[string]bool)
	for _, a := range s.addresses {
		_, query, _ := strings.Cut(a.at, "?")
		if kind := a.page + shape(query); !seen[kind] {
			seen[kind] = true
			list = append(list, a)
		}
	}
	return list
}

// TestAxe lets axe look at all pages in both themes, as wide as a desk and as a telephone.
func TestAxe(t *testing.T) {
	t.Parallel()
	script := axe(t)
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	base := s.mounts(t)[1].base
	list := s.kinds()
	for at := range mistaken {
		list = append(list, address{at: at})
	}
	var mu sync.Mutex
	found := make(map[string][]string) // where something is found: often on several pages
	t.Run("pages", func(t *testing.T) {
		const parts = 2
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				p := b.Page(t)
				for i := part; i < len(list); i += parts {
					p.Open(base + list[i].at)
					p.Eval(script, nil)
					for _, a := range audits {
						p.Emulate(a.device)
						var faults []string
						p.Eval(fmt.Sprintf(audit, a.rules), &faults)
						mu.Lock()
						for _, f := range faults {
							found[f] = append(found[f], a.name+": "+list[i].String())
						}
						mu.Unlock()
					}
				}
			})
		}
	})
	for _, fault := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s; %d times, the first in %s", fault, len(found[fault]), slices.Min(found[fault]))
	}
	t.Logf("%d addresses", len(list))
}
