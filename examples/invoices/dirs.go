package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// dirs are the directories on our side.
type dirs struct {
	base      string
	temporary bool
	// The directories below base.
	work, staging, processing, quarantine, archive string
}

func newDirs(base string) (*dirs, error) {
	d := &dirs{base: base}
	if base == "" {
		tmp, err := os.MkdirTemp("", "invoices-")
		if err != nil {
			return nil, err
		}
		d.base, d.temporary = tmp, true
	}
	abs, err := filepath.Abs(d.base)
	if err != nil {
		return nil, err
	}
	d.base = abs
	for name, dir := range map[string]*string{
		"work": &d.work, "staging": &d.staging, "processing": &d.processing, "quarantine": &d.quarantine, "archive": &d.archive,
	} {
		*dir = filepath.Join(abs, name)
		if err := os.MkdirAll(*dir, 0o700); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *dirs) remove() {
	if d.temporary {
		os.RemoveAll(d.base)
	}
}

// print lists the files that have arrived.
func (d *dirs) print(out io.Writer) error {
	kept := ""
	if d.temporary {
		kept = ", which go with the program; -dir keeps them"
	}
	fmt.Fprintf(out, "\nFiles in %s%s\n", d.base, kept)
	return filepath.WalkDir(d.base, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.base, path)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "  %-40s %10s\n", filepath.ToSlash(rel), size(info.Size()))
		return nil
	})
}

// size returns a number of bytes in words.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	f, prefix := float64(n), ""
	for _, prefix = range []string{"Ki", "Mi", "Gi", "Ti"} {
		if f /= unit; f < unit {
			break
		}
	}
	return fmt.Sprintf("%.1f %sB", f, prefix)
}
