package format

import (
	"fmt"
	"html/template"
	"time"
)

// Time returns an instant in UTC, or a dash. Scripts add the zone of the visitor and how
// long ago it is.
func Time(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `">` + t.Format("2006-01-02 15:04:05") + ` UTC</time>`)
}

// Size returns a number of bytes, rounded, with the exact one as its title.
func Size(n int64) template.HTML {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	f, i := float64(n), 0
	for f >= 999.5 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	if i == 0 {
		return template.HTML(fmt.Sprintf("%d B", n))
	}
	digits := 1
	if f >= 99.95 {
		digits = 0
	}
	return template.HTML(fmt.Sprintf(`<span title="%s bytes">%.*f %s</span>`, Count(n), digits, f, units[i]))
}
