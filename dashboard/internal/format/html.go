package format

import (
	"bytes"
	"fmt"
	"html/template"
	"time"
)

// The forms of an instant that [Time] writes: for machines, and for people in a zone.
const (
	timeBegin = `<time datetime="`
	machine   = "2006-01-02T15:04:05.000Z"
	shown     = "2006-01-02 15:04:05 MST"
)

// Time returns an instant in UTC, or a dash for the zero time. [InZone] shows it in the zone of the
// visitor, and scripts add how long ago it is.
func Time(t time.Time) template.HTML {
	if t.IsZero() {
		return `<span class="none">–</span>`
	}
	t = t.UTC()
	return template.HTML(timeBegin + t.Format(machine) + `">` + t.Format(shown) + `</time>`)
}

// InZone shows the instants that [Time] has written into HTML in the zone of, with the time in the
// zone title as their titles. If both zones are the same, the text stays as it is. Texts of people
// are escaped, so they can't look like an instant.
func InZone(html []byte, of, title *time.Location) []byte {
	if of == title {
		return html
	}
	out := make([]byte, 0, len(html)+len(html)/16)
	for {
		i := bytes.Index(html, []byte(timeBegin))
		if i < 0 {
			return append(out, html...)
		}
		i += len(timeBegin)
		out, html = append(out, html[:i]...), html[i:]
		at, err := time.Parse(machine, string(html[:min(len(html), len(machine))]))
		was := at.Format(machine) + `">` + at.Format(shown) + `</time>`
		if err != nil || !bytes.HasPrefix(html, []byte(was)) {
			continue // an instant in another form, such as in a calendar
		}
		out = append(out, at.Format(machine)+`" title="`+template.HTMLEscapeString(at.In(title).Format(shown))+`">`+template.HTMLEscapeString(at.In(of).Format(shown))+`</time>`...)
		html = html[len(was):]
	}
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

// ID returns the id of an execution or a chain execution. The style sheet shows only its first 13
// characters, which are the millisecond in which it was created. The title and a copy have the
// whole id.
func ID(id any) template.HTML {
	text := template.HTMLEscapeString(fmt.Sprint(id))
	return template.HTML(`<code class="id short" title="` + text + `">` + text + `</code>`)
}
