package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A FileFilter selects the files that FindFiles returns.
type FileFilter struct {
	// Name is the whole name of the file, without directories. With an asterisk at its end
	// it is the beginning of the name. With asterisks at both ends it is a part of the
	// name, and only about the newest 100,000 entries are searched. Case is ignored for the
	// letters A to Z.
	Name   string
	Exact  bool              // Name is the whole name, and asterisks in it are literal
	Before *store.TrailEntry // of the last file of the previous page; nil for the first page
	Limit  int               // 0 means 100, the most is 1000
}

// A FoundFile is a file that a step has reported, or an item of a loop in which it has failed.
type FoundFile struct {
	Entry store.TrailEntry      // for Before of the next page
	Step  courier.StepExecution // the record of the attempt, with the time, the step and the state
	Files []courier.File        // the files of the record that have the name
	Item  string                // the matching label of an item in which the step has failed; empty if none matches
}

// FindFiles returns a page of the reports of files with a name: which step of which execution
// wrote, received, sent or removed the file. Items of loops in which steps have failed are found by
// their labels in the same way; see [store.MaxTrailItems]. Reports of one name are sorted newest
// first, and names in descending order. The store must have the role store.Trail; otherwise the
// error matches [errors.ErrUnsupported].
func (h Executions) FindFiles(ctx context.Context, f FileFilter) ([]FoundFile, error) {
	t, err := h.e.roles.Trail()
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	filter, err := f.trail()
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	entries, err := t.Find(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	if len(entries) == 0 {
		return nil, nil
	}
	steps, err := t.Reports(ctx, entries)
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	return foundFiles(entries, steps), nil
}

// trail returns the filter of the store.
func (f *FileFilter) trail() (store.TrailFilter, error) {
	filter := store.TrailFilter{Key: store.TrailFile, Before: f.Before, Limit: f.Limit}
	part, prefix, isPart := f.Name, false, false
	if !f.Exact {
		part, prefix = strings.CutSuffix(part, "*")
		part, isPart = strings.CutPrefix(part, "*")
	}
	switch {
	case strings.Contains(part, "/") || strings.Contains(part, "*") && !f.Exact || part == "" || isPart && !prefix:
		return filter, courier.Errorf(courier.ErrInvalid, "%q: give a name without directories, NAME, or its beginning, NAME*, or a part of it, *NAME*", f.Name)
	case isPart:
		filter.Part = true
	default:
		filter.Prefix = prefix
	}
	filter.Value = store.TrailName(part)
	return filter, nil
}

// foundFiles returns the files of entries. Steps are their records, in the same order; those
// of executions that were removed meanwhile are missing.
func foundFiles(entries []store.TrailEntry, steps []courier.StepExecution) []FoundFile {
	list := make([]FoundFile, 0, len(steps))
	for _, e := range entries {
		if len(steps) == 0 || steps[0].Execution != e.Execution || steps[0].Seq != e.Seq {
			continue
		}
		found := FoundFile{Entry: e, Step: steps[0]}
		steps = steps[1:]
		for _, file := range found.Step.Files {
			if store.TrailName(file.Path) == e.Value {
				found.Files = append(found.Files, file)
			}
		}
		for _, label := range found.Step.ItemLabels {
			if store.TrailName(label) == e.Value {
				found.Item = label
			}
		}
		list = append(list, found)
	}
	return list
}
