package file

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/globmatch"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/safename"
)

// List is the step type file.list. The zero List has the default limits.
type List struct {
	Limits Limits // of which List uses MaxMatches
}

// ListConfig is the configuration of file.list.
type ListConfig struct {
	Path               courier.Pattern `json:"path" courier:"required" doc:"the directory to list, one file, or a pattern"`
	Pattern            courier.Pattern `json:"pattern,omitempty" doc:"list only matching names of a directory; with recursive, names at any depth, or paths if the pattern has a slash"`
	Exclude            courier.Pattern `json:"exclude,omitempty" doc:"leave out what matches, in the same form"`
	Recursive          bool            `json:"recursive,omitempty" doc:"list the directories below too"`
	IncludeDirectories bool            `json:"include_directories,omitempty" doc:"list directories as entries of their own"`
	MinAgeSeconds      float64         `json:"min_age_seconds,omitempty" min:"0" max:"1000000000" doc:"leave out files modified so recently, which may be incomplete; 0 leaves out none"`
	FailIfEmpty        bool            `json:"fail_if_empty,omitempty" doc:"an empty list is an error"`
	Glob               *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
}

// ListOutput is the output of file.list.
type ListOutput struct {
	FileList  []Entry `json:"file_list" doc:"the files, in the order of their paths"`
	FileCount int     `json:"file_count" doc:"number of files"`
}

// An Entry describes a file. It has the fields of fileserver.File, the entry of a remote file.
// The documentation of that type names remote paths, and a server may not report a time.
type Entry struct {
	Name        string    `json:"name"` // last element of the path
	Path        string    `json:"path"` // usable in the configuration of later steps
	Size        int64     `json:"size"` // in bytes; 0 for directories
	Modified    time.Time `json:"modified"`
	IsDirectory bool      `json:"is_directory"`
}

// Execute lists regular files. It leaves out links, special files, and the temporary files of
// transfers in progress.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg ListConfig) (ListOutput, error) {
	out := ListOutput{FileList: []Entry{}}
	if err := cfg.check(); err != nil {
		return out, err
	}
	found, err := l.find(ctx, job, cfg)
	if err != nil {
		return out, err
	}
	newest := time.Now().Add(-time.Duration(cfg.MinAgeSeconds * float64(time.Second)))
	for _, m := range found {
		if cfg.MinAgeSeconds > 0 && m.info.ModTime().After(newest) && !m.info.IsDir() {
			continue
		}
		if cfg.Exclude != "" && matchesName(glob.Whole(cfg.Exclude, cfg.Glob).Escaped(), m.below) {
			continue
		}
		e := Entry{Name: m.base(), Path: m.name, Modified: m.info.ModTime().UTC().Truncate(time.Microsecond), IsDirectory: m.info.IsDir()}
		if !e.IsDirectory {
			e.Size = m.info.Size()
		}
		out.FileList = append(out.FileList, e)
	}
	out.FileCount = len(out.FileList)
	if out.FileCount == 0 && cfg.FailIfEmpty {
		return out, fmt.Errorf("%q: no file to list; fail_if_empty is set", localfile.Shorten(cfg.Path.String()))
	}
	return out, nil
}

func (l List) find(ctx context.Context, job *courier.Context, cfg ListConfig) ([]match, error) {
	s := search{job: job, most: l.Limits.withDefaults().MaxMatches, paths: l.Limits.withDefaults().MaxPathBytes, kind: func(m fs.FileMode) bool {
		return m.IsRegular() || m.IsDir() && cfg.IncludeDirectories
	}}
	found, pattern, err := s.find(ctx, glob.Whole(cfg.Path, cfg.Glob), cfg.Glob)
	if err != nil || pattern {
		return found, err
	}
	p := found[0]
	info, err := p.root.Stat(p.rel) // a link to a directory is as good as one
	if err != nil {
		return nil, localfile.Error(p.name, err)
	}
	if !info.IsDir() {
		if !info.Mode().IsRegular() {
			return nil, courier.Permanent(fmt.Errorf("%q is %s, neither a directory nor a regular file", p.name, localfile.Kind(info.Mode())))
		}
		p.info = info
		return []match{p}, nil
	}
	depth := 1
	if cfg.Recursive {
		depth = -1
	}
	return s.matches(ctx, p.place, cfg.below(), depth, strings.Contains(cfg.Pattern.String(), sideMark))
}

// below is the pattern for paths below the directory.
func (cfg ListConfig) below() string {
	switch {
	case cfg.Pattern == "":
		return "**"
	case cfg.Recursive && !strings.Contains(cfg.Pattern.String(), "/"):
		return "**/" + cfg.Pattern.Escaped()
	}
	return cfg.Pattern.Escaped()
}

// matchesName reports whether a pattern matches: without a slash, the last element of a path;
// with a slash, the whole path.
func matchesName(pattern, below string) bool {
	if !strings.Contains(pattern, "/") {
		below = below[strings.LastIndexByte(below, '/')+1:]
	}
	return globmatch.Match(pattern, below)
}

func (cfg ListConfig) check() error {
	for field, p := range map[string]courier.Pattern{"pattern": cfg.Pattern, "exclude": cfg.Exclude} {
		if !doublestar.ValidatePattern(p.Escaped()) {
			return courier.Permanent(fmt.Errorf("%s %q is malformed: check that its brackets and braces are closed", field, localfile.Shorten(p.String())))
		}
		if err := safename.CheckPattern(p.Escaped()); err != nil {
			return courier.Permanent(fmt.Errorf("%s: %w", field, err))
		}
	}
	if !cfg.Recursive && strings.Contains(cfg.Pattern.String(), "/") {
		return courier.Permanent(fmt.Errorf("pattern %q has a slash, so it needs recursive", localfile.Shorten(cfg.Pattern.String())))
	}
	return nil
}

// Validate checks the path and the patterns.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg ListConfig) error {
	if err := cfg.check(); err != nil {
		return err
	}
	return request{source: glob.Whole(cfg.Path, cfg.Glob), glob: cfg.Glob}.validateSource(job, "path")
}
