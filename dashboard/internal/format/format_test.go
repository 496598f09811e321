package format_test

import (
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/dashboard/internal/format"
)

// Characters that hide or turn around text are shown by their numbers in text, and stay as
// they are in attributes; all other text stays as it is.
func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "<p>plain · text – … ›</p>\n\t": "<p>plain · text – … ›</p>\n\t", "<b>a\u202eb</b>": "<b>a[U+202E]b</b>",
		"<b title=\"a\u202eb\">\x1b</b>\x00": "<b title=\"a\u202eb\">[U+001B]</b>[U+0000]", "\u200b\u200e\u2028\u2066\u2069\ufeff\u061c\u0085\x7f\r": "[U+200B][U+200E][U+2028][U+2066][U+2069][U+FEFF][U+061C][U+0085][U+007F][U+000D]",
		"עברית 日本語 🚚 é": "עברית 日本語 🚚 é", "\xe2\x80": "\xe2\x80", "\xff\u202d": "\xff[U+202D]",
		// A name in a sentence that is written from right to left, and none of the others.
		`<p>Job &#34;דוח&#34;: 3 failed &#34;x&#34;, &#34;תשלום ` + "\u202e" + ` 7&#34;</p>`: `<p>Job <bdi>&#34;דוח&#34;</bdi>: 3 failed &#34;x&#34;, <bdi>&#34;תשלום [U+202E] 7&#34;</bdi></p>`,
		`<p>&#34;a&#34; דוח &#34;b&#34;</p>`:                                                 `<p>&#34;a&#34; דוח &#34;b&#34;</p>`, `&#34;\&#34;דוח&#34; 1`: `<bdi>&#34;\&#34;דוח&#34;</bdi> 1`, `&#34;دو&amp;\\&#34; 1`: `<bdi>&#34;دو&amp;\\&#34;</bdi> 1`,
		`<p>cut &#34;דוח… is 1, &#34;דוח</p>`: `<p>cut <bdi>&#34;דוח… is 1, &#34;</bdi>דוח</p>`, `<p>5&#34; דוח</p>`: `<p>5&#34; דוח</p>`, `<p>cut &#34;דוח… 1</p>`: `<p>cut <bdi>&#34;דוח…</bdi> 1</p>`,
		`<p>cut &#34;דוח…</p>&#34;`: `<p>cut <bdi>&#34;דוח…</bdi></p>&#34;`, `<a title="&#34;דוח&#34;">1</a>`: `<a title="&#34;דוח&#34;">1</a>`,
		`<title>&#34;דוח&#34;</title><option>&#34;דוח&#34;</option><text x="1">&#34;דוח&#34;</text>`: `<title>&#34;דוח&#34;</title><option>&#34;דוח&#34;</option><text x="1">&#34;דוח&#34;</text>`,
		`<bdi>&#34;דוח&#34;</bdi><bdi>the &#34;דוח&#34;</bdi>`:                                       `<bdi>&#34;דוח&#34;</bdi><bdi>the <bdi>&#34;דוח&#34;</bdi></bdi>`,
	} {
		if got := string(format.Visible([]byte(in))); got != want {
			t.Errorf("%q becomes %q, and not %q", in, got, want)
		}
		if again := string(format.Visible([]byte(want))); again != want {
			t.Errorf("%q becomes %q once more", want, again)
		}
	}
}

func FuzzVisible(f *testing.F) {
	f.Add("<a title='\u202e'>\u202e</a>")
	f.Add("<p>&#34;א\\&#34;&#34; 1 &#34;ב")
	f.Fuzz(func(t *testing.T, in string) {
		got := string(format.Visible([]byte(in)))
		again := string(format.Visible([]byte(got)))
		if got != again {
			t.Errorf("%q becomes %q, and then %q", in, got, again)
		}
		if !strings.Contains(in, "<") && strings.ContainsAny(got, "\u202e\u2066\x1b\x00\u200f") {
			t.Errorf("%q becomes %q", in, got)
		}
	})
}

// Figures are rounded so that they can be read at a glance.
func TestFormat(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "< 1 ms", time.Millisecond: "1 ms", 999 * time.Millisecond: "999 ms", 1500 * time.Millisecond: "1.5 s", 82 * time.Second: "1 m 22 s", 90 * time.Minute: "1 h 30 m", 50 * time.Hour: "2 days 2 h", -1: "–",
	} {
		if got := format.Took(d); got != want {
			t.Errorf("%d: %q, not %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: `<span title="1,000 bytes">1.0 kB</span>`, 412_337_104: `<span title="412,337,104 bytes">412 MB</span>`, 999_999: `<span title="999,999 bytes">1.0 MB</span>`} {
		if got := string(format.Size(n)); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 12: "12", 1234: "1,234", 123456: "123,456", -1234: "-1,234", 1234567: "1,234,567"} {
		if got := format.Count(n); got != want {
			t.Errorf("%d: %q, not %q", n, got, want)
		}
	}
	for in, want := range map[string]string{"": "", "a list": "A list.", "is it?": "Is it?", "[1, …": "[1, …"} {
		if got := format.Sentence(in); got != want {
			t.Errorf("%q: %q, not %q", in, got, want)
		}
	}
	if got := format.Plural(int64(1), "entry") + format.Plural(1200, "entry") + format.Plural(0, "file"); got != "1 entry1,200 entries0 files" {
		t.Errorf("%q", got)
	}
	if got := format.Clip(3, "äöüß"); got != "äöü…" || format.Clip(4, "äöüß") != "äöüß" {
		t.Errorf("%q", got)
	}
}

// Instants are shown in a zone, with those of another one as their titles. What only looks like
// one stays as it is.
func TestInZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	one := string(format.Time(time.Date(2026, 10, 25, 0, 30, 1, 5e6, time.UTC)))
	const want = `<time datetime="2026-10-25T00:30:01.005Z" title="2026-10-25 00:30:01 UTC">2026-10-25 02:30:01 CEST</time>`
	const later = `<time datetime="2026-10-25T01:30:00.000Z" title="2026-10-25 01:30:00 UTC">2026-10-25 02:30:00 CET</time>` // the clock was set back
	for in, want := range map[string]string{
		"": "", "<p>12:00 UTC</p>": "<p>12:00 UTC</p>", one: want, "<td>" + one + "</td>" + one + "x": "<td>" + want + "</td>" + want + "x",
		one + string(format.Time(time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC))): want + later,
		`<time datetime="2026-10-25T00:30:01Z">02:30</time>`:                      `<time datetime="2026-10-25T00:30:01Z">02:30</time>`, `<time datetime="`: `<time datetime="`,
		`<time datetime="2026-10-25T00:30:01.005Z">else</time>` + one: `<time datetime="2026-10-25T00:30:01.005Z">else</time>` + want, string(format.Time(time.Time{})): `<span class="none">–</span>`,
	} {
		if got := string(format.InZone([]byte(in), berlin, time.UTC)); got != want {
			t.Errorf("%s becomes %s, and not %s", in, got, want)
		}
		if same := string(format.InZone([]byte(in), time.UTC, time.UTC)); same != in {
			t.Errorf("in UTC %s becomes %s", in, same)
		}
	}
	if got := string(format.InZone([]byte(one), time.UTC, berlin)); got != `<time datetime="2026-10-25T00:30:01.005Z" title="2026-10-25 02:30:01 CEST">2026-10-25 00:30:01 UTC</time>` {
		t.Errorf("with the titles of Berlin: %s", got)
	}
}
