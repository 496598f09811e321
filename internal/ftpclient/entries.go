package ftpclient

import (
	"strconv"
	"strings"
	"time"
)

// An Entry is a line of a listing.
type Entry struct {
	Info
	Name string
	Link bool // to what, must be asked for
	Odd  bool // neither a file, a directory nor a link
}

// parseMLSD parses a line of MLSD, such as
// "type=file;size=12;modify=20240506070809; name". The entry has no name if the
// line describes the directory itself.
func parseMLSD(text string) (Entry, bool) {
	facts, name, ok := strings.Cut(text, " ")
	if !ok || name == "" {
		return Entry{}, false
	}
	e := Entry{Name: name, Info: Info{Size: -1}, Odd: true}
	for fact := range strings.SplitSeq(facts, ";") {
		key, value, ok := strings.Cut(fact, "=")
		if !ok {
			if fact != "" {
				return Entry{}, false
			}
			continue
		}
		switch strings.ToLower(key) {
		case "type":
			switch kind := strings.ToLower(value); {
			case kind == "file":
				e.Odd = false
			case kind == "dir":
				e.Odd, e.IsDir = false, true
			case kind == "cdir", kind == "pdir":
				e.Odd, e.IsDir, e.Name = false, true, ""
			case strings.HasPrefix(kind, "os.unix=slink"), strings.HasPrefix(kind, "os.unix=symlink"):
				e.Odd, e.Link = false, true
			}
		case "size":
			if e.Size = parseCount(value); e.Size < 0 {
				return Entry{}, false
			}
		case "modify":
			e.Modified, _ = parseTime(value)
		}
	}
	return e, true
}

// parseMLST parses the reply to MLST, in which the relevant line begins with a
// space.
func parseMLST(r reply) (Info, bool) {
	for _, text := range r.lines {
		if facts, ok := strings.CutPrefix(text, " "); ok {
			e, ok := parseMLSD(facts)
			return e.Info, ok && !e.Odd && !e.Link && (e.IsDir || e.Size >= 0)
		}
	}
	return Info{}, false
}

// parseLIST parses a line of LIST in the formats of Unix and DOS. If the line
// has no year, the latest year is used for which the time is at most a day
// after now. Times are treated as UTC, since the line does not state the zone.
func parseLIST(text string, now time.Time) (Entry, bool) {
	if text == "" {
		return Entry{}, false
	}
	if text[0] >= '0' && text[0] <= '9' {
		return parseDOS(text)
	}
	return parseUnix(text, now)
}

// cutField cuts off the first field and the spaces before it.
func cutField(text string) (field, rest string) {
	text = strings.TrimLeft(text, " \t")
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// parseUnix parses "-rw-r--r-- 1 ada users 12 May  6 07:08 name". Servers omit
// some of the fields before the size.
func parseUnix(text string, now time.Time) (Entry, bool) {
	mode, rest := cutField(text)
	if len(mode) < 10 || strings.Trim(mode[1:10], "-rwxsStTlL") != "" {
		return Entry{}, false
	}
	e := Entry{Info: Info{Size: -1}}
	switch mode[0] {
	case '-':
	case 'd':
		e.IsDir = true
	case 'l':
		e.Link = true
	case 'b', 'c', 'p', 's', 'D':
		e.Odd = true
	default:
		return Entry{}, false
	}
	const fields = 6 // links, owner, two for the group, and two for a device
	last := ""
	for range fields {
		if t, name, ok := parseDate(rest, now); ok {
			e.Modified, e.Name = t, name
			break
		}
		last, rest = cutField(rest)
	}
	if e.Name == "" || len(e.Name) > 1 && e.Name[0] != ' ' {
		return Entry{}, false
	}
	e.Name = e.Name[1:]
	if e.Size = parseCount(last); e.Size < 0 && !e.Odd {
		return Entry{}, false
	}
	if e.Link {
		name, _, ok := strings.Cut(e.Name, " -> ")
		if !ok || strings.Contains(e.Name[len(name)+4:], " -> ") {
			return Entry{}, false
		}
		e.Name, e.Size = name, -1
	}
	return e, e.Name != ""
}

var months = map[string]time.Month{
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12,
}

// parseDate parses "May 6 07:08", "May 6 2024" or "2024-05-06 07:08" at the
// beginning of text, and returns the rest.
func parseDate(text string, now time.Time) (t time.Time, rest string, ok bool) {
	a, rest := cutField(text)
	b, rest := cutField(rest)
	if t, err := time.Parse("2006-01-02 15:04", a+" "+b); err == nil {
		return t, rest, true
	}
	c, rest := cutField(rest)
	month, ok := months[strings.ToLower(a)]
	if !ok { // some put the day first
		a, b = b, a
		month, ok = months[strings.ToLower(a)]
	}
	day, err := strconv.ParseUint(b, 10, 8)
	if !ok || err != nil || day < 1 || day > 31 {
		return t, "", false
	}
	if year, err := strconv.ParseUint(c, 10, 16); err == nil && len(c) == 4 {
		return time.Date(int(year), month, int(day), 0, 0, 0, 0, time.UTC), rest, true
	}
	clock, err := time.Parse("15:04", c)
	if err != nil {
		return t, "", false
	}
	t = time.Date(now.Year(), month, int(day), clock.Hour(), clock.Minute(), 0, 0, time.UTC)
	if t.After(now.AddDate(0, 0, 1)) {
		t = t.AddDate(-1, 0, 0)
	}
	return t, rest, true
}

// parseDOS parses "05-06-24  07:08AM  12 name" and "05-06-24  07:08AM  <DIR>
// name".
func parseDOS(text string) (Entry, bool) {
	date, rest := cutField(text)
	clock, rest := cutField(rest)
	kind, rest := cutField(rest)
	e := Entry{Info: Info{Size: -1}}
	for _, form := range []string{"01-02-06 03:04PM", "01-02-2006 03:04PM", "01-02-06 15:04", "01-02-2006 15:04", "2006-01-02 15:04", "2006-01-02 03:04PM"} {
		if t, err := time.Parse(form, date+" "+strings.ToUpper(clock)); err == nil {
			e.Modified = t
			break
		}
	}
	if e.Modified.IsZero() || len(rest) < 2 {
		return Entry{}, false
	}
	if strings.EqualFold(kind, "<DIR>") {
		e.IsDir, e.Name = true, strings.TrimLeft(rest, " ")
		return e, e.Name != ""
	}
	e.Name = rest[1:]
	e.Size = parseCount(kind)
	return e, e.Size >= 0
}

// parseCount parses a number of bytes; it returns -1 if text is not one.
func parseCount(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] == '+' {
		return -1
	}
	return n
}
