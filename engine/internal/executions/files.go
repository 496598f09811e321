package executions

import (
	"context"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A FileFilter says which files are searched. Name is a whole name, or with asterisks the
// beginning or a part of one. If Exact is set, it is a whole name, with any asterisks in it.
type FileFilter struct {
	Name   string
	Exact  bool
	Before *store.TrailEntry
	Limit  int
}

// A FoundFile is a file that a step has reported.
type FoundFile struct {
	Entry store.TrailEntry
	Step  courier.StepExecution
	Files []courier.File // those of the record that have the name
}

// FindFiles returns a page of the reports of files with a name.
func (v *Service) FindFiles(ctx context.Context, f FileFilter) ([]FoundFile, error) {
	t, err := v.opt.Roles.Trail()
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
	return found(entries, steps), nil
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

// found returns the files of entries. Steps are their records, in the same order; those
// of executions that were removed meanwhile are missing.
func found(entries []store.TrailEntry, steps []courier.StepExecution) []FoundFile {
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
		list = append(list, found)
	}
	return list
}
