package store

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/courierhq/courier"
)

// A FileRule decides which files of a directory are handed over to executions, and
// when.
type FileRule struct {
	Selects  func(name string) bool
	Events   []courier.MonitorEvent
	Stable   time.Duration
	DoneFile string        // see [courier.Monitor]
	Keep     time.Duration // how long the rows of missing files are kept
	Max      int           // files that are handed over at once
	// MaxBytes limits the total length of the names and paths of these, plus 100 bytes
	// for each. One file is always handed over. 0 means no limit.
	MaxBytes int
}

// A ReadyFile is a file that is to be handed over to an execution.
type ReadyFile struct {
	File     courier.ListedFile
	Event    courier.MonitorEvent
	Appeared int       // which appearance of the file it is
	Look     time.Time // when the poll began
	row      int       // in FilePlan.Changed
}

// A FilePlan is the decision on the files of a directory after a poll.
type FilePlan struct {
	Changed []SeenFile  // rows of files that are new or have changed
	Removed []string    // files whose rows are to be removed
	Ready   []ReadyFile // in the order of their names
	Files   int         // the number of files that the rule selects
	Waiting int         // the number of those that are not ready
	// Wait is the time until another file may be ready, 0 if there is none. More
	// reports whether more files are ready than are handed over at once.
	Wait time.Duration
	More bool

	candidates []candidate
}

// Hand records in Changed that file i of Ready is handed over to an execution.
func (p *FilePlan) Hand(i int, x courier.ExecutionID, at time.Time) {
	r := &p.Changed[p.Ready[i].row]
	r.note()
	r.HandedAt, r.Execution = at, x
}

// note records the current size and time, with which later ones are compared.
func (f *SeenFile) note() {
	f.Handed, f.HandedSize, f.HandedModified = f.Appeared, f.Size, f.Modified
}

// PlanFiles decides on the files of a listing that began and ended at those instants,
// given the files that were seen before. A file counts as unchanged only for the time
// from the end of one listing to the beginning of a later one.
func PlanFiles(seen map[string]SeenFile, list []courier.ListedFile, r FileRule, began, ended time.Time) FilePlan {
	var p FilePlan
	there := make(map[string]bool, len(list))
	for i := range list {
		there[list[i].Name] = true
	}
	sorted := slices.SortedFunc(slices.Values(list), func(a, b courier.ListedFile) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted {
		f := &sorted[i]
		if !r.Selects(f.Name) || i > 0 && f.Name == sorted[i-1].Name {
			continue
		}
		f.Modified = f.Modified.UTC().Truncate(time.Microsecond)
		done := r.DoneFile != "" && there[f.Name+r.DoneFile]
		p.look(seen, f, &r, done, began, ended)
	}
	p.choose(r.Max, r.MaxBytes)
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		s := seen[name]
		switch {
		case there[name]:
		case s.Gone.IsZero():
			s.Gone, s.Done = ended, false
			p.Changed = append(p.Changed, s)
		case ended.Sub(s.Gone) >= r.Keep:
			p.Removed = append(p.Removed, name)
		}
	}
	return p
}

// look adds the decision on one file.
func (p *FilePlan) look(seen map[string]SeenFile, f *courier.ListedFile, r *FileRule, done bool, began, ended time.Time) {
	p.Files++
	s, known := seen[f.Name]
	same := known && s.Gone.IsZero() && s.Size == f.Size && s.Modified.Equal(f.Modified)
	ready, wait := same && s.Done && done, time.Microsecond
	if r.DoneFile == "" {
		ready, wait = same && began.Sub(s.Since) >= r.Stable, r.Stable
		if same {
			wait -= began.Sub(s.Since)
		}
	}
	changed := !same || s.Done != done
	if !known || !s.Gone.IsZero() {
		s.Appeared++
	}
	if !same {
		s.Name, s.Size, s.Modified, s.Since, s.Gone = f.Name, f.Size, f.Modified, ended, time.Time{}
	}
	s.Done = done
	if !ready {
		p.Waiting++
		if (r.DoneFile == "" || done) && (p.Wait == 0 || wait < p.Wait) {
			p.Wait = wait
		}
		if changed {
			p.Changed = append(p.Changed, s)
		}
		return
	}
	event, note := s.event(r.Events)
	if note {
		s.note()
	}
	if event != "" {
		p.candidates = append(p.candidates, candidate{ReadyFile{*f, event, s.Appeared, began, -1}, s, changed})
	} else if note || changed {
		p.Changed = append(p.Changed, s)
	}
}

// A candidate is a file that could be handed over.
type candidate struct {
	ready   ReadyFile
	seen    SeenFile
	changed bool
}

// choose selects the candidates that are handed over at once. Files that only exist
// come last, and among those the ones first that have waited longest.
func (p *FilePlan) choose(most, bytes int) {
	list := p.candidates
	p.candidates = nil
	if len(list) > most || fitting(list, bytes) < len(list) {
		slices.SortStableFunc(list, func(a, b candidate) int {
			only := func(c *candidate) int {
				if c.ready.Event == courier.FileExists {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(only(&a), only(&b)), a.seen.HandedAt.Compare(b.seen.HandedAt))
		})
		most = min(most, fitting(list, bytes))
		p.More = list[most].ready.Event != courier.FileExists
	}
	chosen := list[:min(most, len(list))]
	slices.SortFunc(chosen, func(a, b candidate) int { return cmp.Compare(a.seen.Name, b.seen.Name) })
	for i := range list {
		c := &list[i]
		if i < most {
			c.ready.row = len(p.Changed)
			p.Ready = append(p.Ready, c.ready)
		}
		if i < most || c.changed {
			p.Changed = append(p.Changed, c.seen)
		}
	}
}

// fitting returns the number of candidates, from the first on, that keep
// [FileRule].MaxBytes.
func fitting(list []candidate, bytes int) int {
	const overhead = 100
	sum := 0
	for i := range list {
		f := &list[i].ready.File
		if sum += len(f.Name) + len(f.Path) + overhead; bytes > 0 && sum > bytes && i > 0 {
			return i
		}
	}
	return len(list)
}

// event returns the event for which a ready file is handed over; empty if there is
// none. Note reports whether the file is recorded, so that later changes are seen.
func (f *SeenFile) event(wanted []courier.MonitorEvent) (event courier.MonitorEvent, note bool) {
	wants := func(e courier.MonitorEvent) bool { return slices.Contains(wanted, e) }
	fresh := f.Handed < f.Appeared
	differs := f.Handed > 0 && (f.Size != f.HandedSize || !f.Modified.Equal(f.HandedModified))
	switch {
	case fresh && wants(courier.FileCreated):
		return courier.FileCreated, false
	case differs && wants(courier.FileModified):
		return courier.FileModified, false
	case wants(courier.FileExists):
		return courier.FileExists, false
	}
	return "", fresh
}
