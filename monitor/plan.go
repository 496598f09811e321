package monitor

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// goneRetention is how long the record of a missing file is kept.
const goneRetention = 30 * 24 * time.Hour

// handLimits limit the files that one poll hands over.
type handLimits struct {
	files int
	// bytes limits the total length of the names and paths of these files, plus 100 bytes
	// for each. One file is always handed over. 0 means no limit.
	bytes int
}

// A readyFile is a file that is to be handed over to an execution.
type readyFile struct {
	file     courier.ListedFile
	event    Event
	appeared int       // which appearance of the file it is
	poll     time.Time // when the poll began
	row      int       // in filePlan.changed
}

// A filePlan is the decision on the files of a directory after a poll.
type filePlan struct {
	changed []SeenFile  // rows of files that are new or have changed
	removed []string    // files whose rows are to be removed
	ready   []readyFile // in the order of their names
	files   int         // the number of files that the monitor selects
	waiting int         // the number of those that are not ready
	// wait is the time until another file may be ready; 0 if there is none. more reports whether
	// more files are ready than one poll hands over.
	wait time.Duration
	more bool

	candidates []candidate
}

// hand records in changed that file i of ready is handed over to an execution.
func (p *filePlan) hand(i int, x courier.ExecutionID, at time.Time) {
	r := &p.changed[p.ready[i].row]
	r.note()
	r.HandedAt, r.Execution = at, x
}

// note records the current size and time, for comparison with later ones.
func (f *SeenFile) note() {
	f.Handed, f.HandedSize, f.HandedModified = f.Appeared, f.Size, f.Modified
}

// planFiles decides on the files of a listing that began and ended at the given instants. Seen
// has the files that were seen before. The monitor has its defaults set. A file counts as
// unchanged only from the end of one listing to the beginning of a later one.
func planFiles(m *Monitor, seen map[string]SeenFile, list []courier.ListedFile, most handLimits, began, ended time.Time) filePlan {
	var p filePlan
	there := make(map[string]bool, len(list))
	for i := range list {
		there[list[i].Name] = true
	}
	sorted := slices.SortedFunc(slices.Values(list), func(a, b courier.ListedFile) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		f := &sorted[i]
		if !m.Selects(f.Name) || i > 0 && f.Name == sorted[i-1].Name {
			continue
		}
		f.Modified = f.Modified.UTC().Truncate(time.Microsecond)
		done := m.DoneFile != "" && there[f.Name+m.DoneFile]
		p.look(m, seen, f, done, began, ended)
	}
	p.choose(most)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		s := seen[name]
		switch {
		case there[name]:
		case s.MissingSince.IsZero():
			s.MissingSince, s.Done = ended, false
			p.changed = append(p.changed, s)
		case ended.Sub(s.MissingSince) >= goneRetention:
			p.removed = append(p.removed, name)
		}
	}
	return p
}

// look adds the decision on one file.
func (p *filePlan) look(m *Monitor, seen map[string]SeenFile, f *courier.ListedFile, done bool, began, ended time.Time) {
	p.files++
	s, known := seen[f.Name]
	same := known && s.MissingSince.IsZero() && s.Size == f.Size && s.Modified.Equal(f.Modified)
	ready, wait := same && s.Done && done, time.Microsecond
	if m.DoneFile == "" {
		ready, wait = same && began.Sub(s.Since) >= m.Stable, m.Stable
		if same {
			wait -= began.Sub(s.Since)
		}
	}
	changed := !same || s.Done != done
	if !known || !s.MissingSince.IsZero() {
		s.Appeared++
	}
	if !same {
		s.Name, s.Size, s.Modified, s.Since, s.MissingSince = f.Name, f.Size, f.Modified, ended, time.Time{}
	}
	s.Done = done
	if !ready {
		p.waiting++
		if (m.DoneFile == "" || done) && (p.wait == 0 || wait < p.wait) {
			p.wait = wait
		}
		if changed {
			p.changed = append(p.changed, s)
		}
		return
	}
	event, note := s.event(m.Events)
	if note {
		s.note()
	}
	if event != "" {
		p.candidates = append(p.candidates, candidate{readyFile{*f, event, s.Appeared, began, -1}, s, changed})
	} else if note || changed {
		p.changed = append(p.changed, s)
	}
}

// A candidate is a file that could be handed over.
type candidate struct {
	ready   readyFile
	seen    SeenFile
	changed bool
}

// choose selects the candidates that are handed over at once. Files with the event exists come
// last; among them, the files that have waited longest come first.
func (p *filePlan) choose(limits handLimits) {
	most := limits.files
	list := p.candidates
	p.candidates = nil
	if len(list) > most || fitting(list, limits.bytes) < len(list) {
		slices.SortStableFunc(list, func(a, b candidate) int {
			only := func(c *candidate) int {
				if c.ready.event == Exists {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(only(&a), only(&b)), a.seen.HandedAt.Compare(b.seen.HandedAt))
		})
		most = min(most, fitting(list, limits.bytes))
		p.more = list[most].ready.event != Exists
	}
	chosen := list[:min(most, len(list))]
	slices.SortFunc(chosen, func(a, b candidate) int { return cmp.Compare(a.seen.Name, b.seen.Name) })
	for i := range list {
		c := &list[i]
		if i < most {
			c.ready.row = len(p.changed)
			p.ready = append(p.ready, c.ready)
		}
		if i < most || c.changed {
			p.changed = append(p.changed, c.seen)
		}
	}
}

// fitting returns the length of the longest prefix of candidates within handLimits.bytes.
func fitting(list []candidate, bytes int) int {
	const overhead = 100
	sum := 0
	for i := range list {
		f := &list[i].ready.file
		if sum += len(f.Name) + len(f.Path) + overhead; bytes > 0 && sum > bytes && i > 0 {
			return i
		}
	}
	return len(list)
}

// event returns the event for which a ready file is handed over; empty if there is none. Note
// reports whether the file must be recorded, so that later changes are seen.
func (f *SeenFile) event(wanted []Event) (event Event, note bool) {
	wants := func(e Event) bool { return slices.Contains(wanted, e) }
	fresh := f.Handed < f.Appeared
	differs := f.Handed > 0 && (f.Size != f.HandedSize || !f.Modified.Equal(f.HandedModified))
	switch {
	case fresh && wants(Created):
		return Created, false
	case differs && wants(Modified):
		return Modified, false
	case wants(Exists):
		return Exists, false
	}
	return "", fresh
}

// fileKey returns the idempotency key of the execution that a monitor starts for files. Two keys
// are equal only for the same event of the same appearance of the same files with the same sizes
// and times.
func fileKey(monitor string, d courier.Directory, list []readyFile) string {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q\n", d.Connection, d.Path)
	for i := range list {
		f := &list[i]
		fmt.Fprintf(h, "%s %q %d %s %d", f.event, f.file.Name, f.file.Size, f.file.Modified.UTC().Format(time.RFC3339Nano), f.appeared)
		if f.event == Exists {
			fmt.Fprintf(h, " %s", f.poll.UTC().Format(time.RFC3339Nano))
		}
		fmt.Fprintln(h)
	}
	return "monitor:" + monitor + ":" + hex.EncodeToString(h.Sum(nil))
}
