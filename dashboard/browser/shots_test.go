package browser

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

var (
	shots = flag.String("shots", "", "the directory that TestScreenshots writes pictures of all pages to; empty means those of the first page alone, to none that stays")
	only  = flag.String("only", "", "the pictures that TestScreenshots takes, as a regular expression for their names; empty means all")
)

// narrow are the pages of which there is a picture as on a telephone.
var narrow = []string{".", "executions", "executions/{id}", "connections", "limits", "jobs", "chains/{name}", "chain-executions/{id}"}

// TestScreenshots takes pictures of all pages, light and dark.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	dir := *shots
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	b := chromium.Start(t)
	for _, empty := range []bool{false, true} {
		s := open(t, demo.Options{Empty: empty, Small: *shots == ""})
		base := s.mounts(t)[1].base
		p := b.Page(t)
		for at := range mistaken {
			s.addresses = append(s.addresses, address{"mistaken-" + at, at})
		}
		for i, a := range s.addresses {
			if *shots == "" && i > 0 {
				break
			}
			name := s.picture(a, empty)
			take := func(kind string, d chromium.Device) {
				if !wanted.MatchString(name + kind) {
					return
				}
				p.Emulate(d)
				p.Open(base + a.at)
				file := filepath.Join(dir, name+kind+".png")
				p.Screenshot(file, &chromium.ScreenshotOptions{Full: true})
				if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
					t.Errorf("%s: no picture: %v", a, err)
				}
			}
			take("-light", chromium.Device{})
			take("-dark", chromium.Device{Dark: true})
			for _, page := range narrow {
				if page == a.page {
					take("-narrow-light", chromium.Device{Width: 390, Height: 844, Mobile: true})
					take("-narrow-dark", chromium.Device{Width: 390, Height: 844, Mobile: true, Dark: true})
				}
			}
		}
		t.Logf("%d addresses", len(s.addresses))
	}
}

// picture returns the name of the pictures of an address.
func (s *site) picture(a address, empty bool) string {
	name := cmp.Or(strings.TrimPrefix(a.page, "."), "first")
	for as, id := range s.By {
		if strings.Contains(a.at, string(id)) {
			name = strings.Replace(name, "{id}", as, 1)
		}
	}
	if _, query, ok := strings.Cut(a.at, "?"); ok {
		name += "-" + shape(query)
	}
	if empty {
		name = "empty-" + name
	}
	name = strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(name), "-"), "-")
	if s.taken[name]++; s.taken[name] > 1 {
		name = fmt.Sprintf("%s-%d", name, s.taken[name])
	}
	return name
}
