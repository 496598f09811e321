package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/filter"
	"github.com/courierhq/courier/monitor"
	"github.com/courierhq/courier/schedule"
	"github.com/courierhq/courier/store"
)

// MaxFound is the maximum number of results of each kind that a search returns.
const MaxFound = 20

// A Search is the result of a search.
type Search struct {
	Executions []courier.Execution // with that id or a longer one that begins with it, or with that label
	ChainRuns  []chain.Execution   // with an id that begins with the text
	FoundNames
	Files     []SearchedFile
	MoreFiles bool     // there may be more: see [Visit.Files]
	Missing   []string // roles that the store lacks, such as "store.Trail"
}

// FoundNames are the names of definitions that begin with a text.
type FoundNames struct {
	Jobs      []string `json:"jobs"`
	Chains    []string `json:"chains"`
	Schedules []string `json:"schedules"`
	Monitors  []string `json:"monitors"`
}

// A SearchedFile is a file that a step has reported.
type SearchedFile struct {
	Job string
	engine.FoundFile
}

// Search searches for an execution by its id or the beginning of its id, see [Visit.ByShortID].
// Otherwise it searches for jobs, chains, schedules and monitors by the beginning of their names;
// for files as [engine.FileFilter] says, where a name also matches longer names; and for
// executions with a label NAME=VALUE. An asterisk in a quoted text stands for itself. It returns
// what the visitor may see, at most [MaxFound] of each kind.
func (v *Visit) Search(ctx context.Context, text string) (Search, error) {
	var s Search
	if filter.IsID(text) {
		x, err := v.Execution(ctx, text, NeedOf("search"))
		if err == nil {
			s.Executions = []courier.Execution{x}
		} else if !errors.Is(err, courier.ErrNotFound) {
			return s, err
		}
		return s, nil
	}
	files := text
	text, _ = filter.Literal(text)
	sees := func(job string) bool { return v.Can(ctx, job, access.RightSee) }
	e := v.d.e
	for _, part := range []struct {
		role string
		find func() error
	}{
		{"store.Catalog", func() error {
			list, _, err := v.Jobs(ctx, text, "", MaxFound)
			for i := range list {
				s.Jobs = append(s.Jobs, list[i].Job.Name)
			}
			return err
		}},
		{"store.Catalog", func() (err error) {
			s.Chains, err = begin(text, func(after string, limit int) ([]chain.Defined, error) {
				return e.Chains().List(ctx, store.DefinitionFilter{After: after, Limit: limit})
			}, func(c *chain.Defined) string { return c.Chain.Name }, func(*chain.Defined) bool { return sees("") })
			return err
		}},
		{"schedule.Store", func() (err error) {
			s.Schedules, err = begin(text, func(after string, limit int) ([]schedule.Schedule, error) {
				return e.Schedules().List(ctx, schedule.Filter{After: after, Limit: limit})
			}, func(s *schedule.Schedule) string { return s.Name }, func(s *schedule.Schedule) bool { return sees(s.Job) })
			return err
		}},
		{"monitor.Store", func() (err error) {
			s.Monitors, err = begin(text, func(after string, limit int) ([]monitor.Monitor, error) {
				return e.Monitors().List(ctx, monitor.Filter{After: after, Limit: limit})
			}, func(m *monitor.Monitor) string { return m.Name }, func(m *monitor.Monitor) bool { return sees(m.Job) })
			return err
		}},
		{"store.Trail", func() error { return v.searchFiles(ctx, files, &s) }},
		{"store.Trail", func() error { return v.searchLabel(ctx, text, &s) }},
		{"store.Store", func() error {
			list, runs, err := v.ByShortID(ctx, text)
			s.Executions, s.ChainRuns = append(s.Executions, list...), runs
			return err
		}},
	} {
		err := part.find()
		if errors.Is(err, errors.ErrUnsupported) {
			if !slices.Contains(s.Missing, part.role) {
				s.Missing = append(s.Missing, part.role)
			}
		} else if err != nil {
			return s, fmt.Errorf("search: %w", err)
		}
	}
	return s, nil
}

// begin returns the names that begin with a text and that the visitor may see.
func begin[T any](text string, read func(after string, limit int) ([]T, error), name func(*T) string, sees func(*T) bool) ([]string, error) {
	list, _, err := pickBeginning(text, "", MaxFound, read, name, sees)
	var names []string
	for i := range list {
		names = append(names, name(&list[i]))
	}
	return names, err
}

// pickBeginning is like [Pick], for the elements whose names begin with a text.
func pickBeginning[T any](text, after string, limit int, read func(after string, limit int) ([]T, error), name func(*T) string, sees func(*T) bool) ([]T, string, error) {
	if text != "" {
		after = max(after, before(text))
	}
	return Pick(after, limit, func(after string, limit int) ([]T, error) {
		page, err := read(after, limit)
		if i := slices.IndexFunc(page, func(x T) bool { return name(&x) > text && !strings.HasPrefix(name(&x), text) }); i >= 0 {
			page = page[:i]
		}
		return page, err
	}, name, func(x *T) bool { return strings.HasPrefix(name(x), text) && sees(x) })
}

// before returns a text that precedes another closely in byte order, because a list continues
// after a name and does not include it.
func before(text string) string {
	r, n := utf8.DecodeLastRuneInString(text)
	if r--; !utf8.ValidRune(r) { // the surrogates
		r = 0xD7FF
	}
	return text[:len(text)-n] + string(r) + string(utf8.MaxRune)
}

// maxFilePages is the maximum number of pages of files that are examined for files that the
// visitor may see.
const maxFilePages = 5

// searchFiles adds the files that the visitor may see.
func (v *Visit) searchFiles(ctx context.Context, text string, s *Search) (err error) {
	s.Files, s.MoreFiles, err = v.Files(ctx, text, nil, MaxFound)
	return err
}

// Files returns a page of the reports of files, as [engine.FileFilter] says, where a name also
// matches longer names, and a quoted text matches only that name. The files are those of
// executions whose values the visitor may see. Before is the last entry of the previous page; nil
// for the first page. More says that there may be further files. A text that is not a file name
// finds none.
func (v *Visit) Files(ctx context.Context, text string, before *store.TrailEntry, limit int) (found []SearchedFile, more bool, err error) {
	f := engine.FileFilter{Before: before, Limit: limit}
	f.Name, f.Exact = filter.Literal(text)
	part := !f.Exact && strings.HasPrefix(text, "*") // the store returns one page of such files
	if !f.Exact && !strings.Contains(text, "*") {
		f.Name += "*"
	}
	jobs := make(map[courier.ExecutionID]string)
	for range maxFilePages {
		list, err := v.d.e.Executions().FindFiles(ctx, f)
		if errors.Is(err, courier.ErrInvalid) {
			return nil, false, nil // it is not a file name
		} else if err != nil {
			return nil, false, err
		}
		for i := range list {
			id := list[i].Entry.Execution
			if _, ok := jobs[id]; !ok {
				x, err := v.d.e.Executions().Get(ctx, id)
				if errors.Is(err, courier.ErrNotFound) {
					continue
				} else if err != nil {
					return nil, false, err
				}
				jobs[id] = x.Job
			}
			if !v.SeesValues(ctx, jobs[id]) {
				continue
			}
			if found = append(found, SearchedFile{jobs[id], list[i]}); len(found) == limit {
				return found, !part, nil
			}
		}
		if len(list) < limit || part {
			return found, false, nil
		}
		f.Before = &list[len(list)-1].Entry
	}
	return found, false, nil
}

// searchLabel adds the executions with a label whose values the visitor may see.
func (v *Visit) searchLabel(ctx context.Context, text string, s *Search) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || value == "" {
		return nil
	}
	w := filter.Filter{Labels: map[string]string{name: value}}
	r, err := v.reach(ctx, &w, Need{Rights: access.RightSee | access.RightValues}, func(x *courier.Execution) bool { return v.SeesValues(ctx, x.Job) })
	if err != nil {
		return err
	}
	p, err := v.d.executions(ctx, w, "", MaxFound, r)
	s.Executions = p.Items
	return err
}
