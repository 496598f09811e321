package browser

import (
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/demo"
	"github.com/courierhq/courier/internal/test/chromium"
)

// TestZone has instants in the zone of the browser from the first page on, a switch to UTC that is
// kept, and UTC without scripts.
func TestZone(t *testing.T) {
	t.Parallel()
	b := chromium.Start(t)
	s := open(t, demo.Options{Small: true})
	for _, m := range s.mounts(t)[:3] {
		p := b.Page(t)
		at := m.base + "executions/" + string(s.By["items"])
		first := `document.querySelector("#summary time")`
		until := func(js string) {
			t.Helper()
			p.WaitFor(js, 3*time.Second)
		}
		p.Emulate(chromium.Device{Zone: "Asia/Tokyo", NoScript: true})
		p.Open(at)
		until(`document.querySelector(".clock").textContent.trim() == "Times in UTC" && ` + first + `.textContent.endsWith(" UTC")`)
		p.Emulate(chromium.Device{Zone: "Asia/Tokyo"})
		p.Open(at)
		const own = `document.querySelector(".clock").textContent.includes("Times in Asia/Tokyo")`
		until(own + ` && ` + first + `.textContent.endsWith(" JST") && ` + first + `.title.endsWith(" UTC") && ` + first + `.dataset.ago.endsWith(" ago")`)
		p.Open(m.base + "schedules")
		until(own + ` && document.querySelector("caption").textContent.includes("in the time zone Asia/Tokyo")`)
		p.Navigate(func() { p.Click(".clock button") })
		until(`document.querySelector(".clock").textContent.includes("Times in UTC")`)
		p.Open(at) // it is kept
		until(first + `.textContent.endsWith(" UTC") && ` + first + `.title.endsWith(" JST")`)
		p.Navigate(func() { p.Click(".clock button") })
		until(own + ` && ` + first + `.textContent.endsWith(" JST")`)
		p.Emulate(chromium.Device{Zone: "America/New_York"}) // somebody has travelled
		p.Open(at)
		until(first + `.textContent.includes(" E")`)
		quiet(t, p, m.name)
	}
}
