package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// A FileFilter says which files are searched.
type FileFilter struct {
	// Name is the whole name of the file, without directories. With an asterisk at its end
	// it is the beginning. With asterisks at both ends it is a part: then the newest
	// 100,000 entries are examined, or so. The letters A to Z and a to z count as the same.
	Name   string
	Before *store.TrailEntry // of the last one of the page before; nil for the first page
	Limit  int               // 0 means 100, the most is 1000
}

// A FoundFile is a file that a step has reported.
type FoundFile struct {
	Entry store.TrailEntry      // for Before of the next page
	Step  courier.StepExecution // the record: when it was, where, and whether it succeeded
	Files []courier.File        // those of the record that have the name
}

// FindFiles returns a page of the reports of files with a name: by which step of which
// execution it was written, received, sent or removed. Those of one name come newest
// first, and names in falling order. The store must have the role store.Trail; otherwise
// the error matches [errors.ErrUnsupported].
func (h Executions) FindFiles(ctx context.Context, f FileFilter) ([]FoundFile, error) {
	t, err := roleOf[store.Trail](h.e, "trail of files")
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	filter := store.TrailFilter{Key: store.TrailFile, Before: f.Before, Limit: f.Limit}
	name, prefix := strings.CutSuffix(f.Name, "*")
	part, isPart := strings.CutPrefix(name, "*")
	switch {
	case strings.ContainsAny(part, "*/") || part == "" || isPart && !prefix:
		return nil, courier.Errorf(courier.ErrInvalid, "find files: %q: give a name without directories, NAME, or its beginning, NAME*, or a part of it, *NAME*", f.Name)
	case isPart:
		filter.Part = true
	default:
		filter.Prefix = prefix
	}
	filter.Value = store.TrailName(part)
	entries, err := t.Find(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("find files: %w", err)
	}
	list := make([]FoundFile, 0, len(entries))
	for _, e := range entries {
		steps, err := h.StepsPage(ctx, store.StepFilter{Execution: e.Execution, After: e.Seq - 1, Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("find files: %w", err)
		}
		if len(steps) == 0 || steps[0].Seq != e.Seq {
			continue // it was removed meanwhile
		}
		found := FoundFile{Entry: e, Step: steps[0]}
		for _, file := range found.Step.Files {
			if store.TrailName(file.Path) == e.Value {
				found.Files = append(found.Files, file)
			}
		}
		list = append(list, found)
	}
	return list, nil
}
