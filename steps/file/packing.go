package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/localfile"
)

// A packing says what goes into an archive of any format, and where the archive goes.
type packing struct {
	path   courier.Pattern   // a source
	paths  []courier.Pattern // more of them
	output string
	glob   *bool
	ext    string // of the archive's name by default
	limits Limits // with defaults
}

// sources returns all sources.
func (p packing) sources() ([]courier.Pattern, error) {
	all := slices.Clone(p.paths)
	if p.path != "" {
		all = append([]courier.Pattern{p.path}, all...)
	}
	if len(all) == 0 {
		return nil, courier.Permanent(errors.New("source_path or source_paths: is required, but empty"))
	}
	for i := range all {
		all[i] = glob.Whole(all[i], p.glob)
	}
	return all, nil
}

// place finds the place of the archive.
func (p packing) place(job *courier.Context) (place, error) {
	all, err := p.sources()
	if err != nil {
		return place{}, err
	}
	name := "archive" + p.ext
	if base := path.Base(filepath.ToSlash(all[0].String())); len(all) == 1 && !glob.Looks(all[0], p.glob) && base != "." && base != "/" {
		name = base + p.ext
	}
	if p.output == "" {
		return at(job, path.Join(job.Files().Dir(), name))
	}
	return target(job, p.output, name)
}

// A packed is a file or an empty directory that goes into an archive.
type packed struct {
	match
	name string // of the entry; a directory's ends in a slash
}

// item returns the item for the archive's writer.
func (p packed) item(job *courier.Context) archive.Item {
	return archive.Item{Name: p.name, Path: p.place.name, Info: p.info, Open: func() (*os.File, fs.FileInfo, error) { return p.source(job) }}
}

// collect finds the files to pack, sorted by the names of their entries.
func (p packing) collect(ctx context.Context, job *courier.Context, dst place) ([]packed, error) {
	all, err := p.sources()
	if err != nil {
		return nil, err
	}
	c := &collector{job: job, dst: dst, limits: p.limits, seen: make(map[string]bool)}
	for _, source := range all {
		s := search{job: job, most: p.limits.MaxMatches, paths: p.limits.MaxPathBytes}
		found, _, err := s.find(ctx, source, p.glob)
		if err != nil {
			return nil, err
		}
		files := 0
		for _, m := range found {
			n, err := c.add(ctx, m)
			if err != nil {
				return nil, err
			}
			files += n
		}
		if files == 0 && slices.ContainsFunc(found, func(m match) bool { return m.name == dst.name }) {
			return nil, sameFile(source, dst, "archive")
		}
		if files == 0 {
			return nil, fmt.Errorf("%q: there is no file to pack; no archive was made", localfile.Shorten(source.String()))
		}
	}
	slices.SortFunc(c.items, func(a, b packed) int { return cmp.Compare(a.name, b.name) })
	names := archive.NewNames(p.limits.archive())
	for _, it := range c.items {
		err := archive.CheckName(strings.TrimSuffix(it.name, "/"))
		if err == nil {
			err = names.Add(strings.TrimSuffix(it.name, "/"), it.info.IsDir())
		}
		if err != nil {
			return nil, courier.Permanent(fmt.Errorf("%q can't be packed: its name in the archive, %q, %w", it.place.name, localfile.Shorten(it.name), err))
		}
	}
	return c.items, nil
}

// sameFile returns the error of a source that is only the output itself; what names the kind of
// output.
func sameFile(source courier.Pattern, dst place, what string) error {
	return courier.Permanent(fmt.Errorf("%q and output_path %q are the same file, and there is no other; no %s was made. Give another output_path", localfile.Shorten(source.String()), dst.name, what))
}

// A collector gathers what goes into an archive.
type collector struct {
	job    *courier.Context
	dst    place
	limits Limits
	seen   map[string]bool // paths
	items  []packed
}

// add adds a file, or the content of a directory, and returns the number of files. It leaves out
// the archive itself, which an earlier attempt may have made.
func (c *collector) add(ctx context.Context, m match) (int, error) {
	info, err := m.root.Stat(m.rel)
	if err != nil {
		return 0, localfile.Error(m.place.name, err)
	}
	m.info = info
	switch {
	case info.Mode().IsRegular():
		return c.item(packed{match: m, name: m.below})
	case !info.IsDir():
		return 0, courier.Permanent(fmt.Errorf("%q is %s; only files and directories can be packed", m.place.name, localfile.Kind(info.Mode())))
	}
	top := m.base()
	if top == "." || top == "/" {
		top = ""
	}
	files := 0
	var dirs []match
	full := make(map[string]bool) // directories with something in them
	err = walk(ctx, c.job, m.place, -1, func(below string, typ fs.FileMode) error {
		p, err := m.in(c.job, below)
		if err != nil {
			return err
		}
		if p.name == c.dst.name || strings.Contains(below, sideMark) || isNotes(c.job, p.name) {
			return nil
		}
		if !typ.IsDir() && !typ.IsRegular() {
			return courier.Permanent(fmt.Errorf("%q is %s; only files and directories can be packed", p.name, localfile.Kind(typ)))
		}
		info, err := p.stat()
		if err != nil {
			return err
		}
		full[path.Dir(below)] = true
		if typ.IsDir() {
			dirs = append(dirs, match{p, below, info})
			return c.count(len(dirs))
		}
		n, err := c.item(packed{match: match{p, below, info}, name: path.Join(top, below)})
		files += n
		return err
	})
	for _, d := range dirs {
		if err == nil && !full[d.below] {
			_, err = c.item(packed{match: d, name: path.Join(top, d.below) + "/"})
		}
	}
	return files, err
}

// item adds one file, unless it was added before, and returns 1. For the archive itself it
// returns 0.
func (c *collector) item(it packed) (int, error) {
	if it.place.name == c.dst.name {
		return 0, nil
	}
	if c.seen[it.place.name] {
		return 1, nil
	}
	c.seen[it.place.name] = true
	c.items = append(c.items, it)
	return 1, c.count(len(c.items))
}

// count refuses more than n files or directories.
func (c *collector) count(n int) error {
	if n > c.limits.MaxFiles {
		return courier.Permanent(fmt.Errorf("there are more than %d files and directories to pack; see MaxFiles in file.Options", c.limits.MaxFiles))
	}
	return nil
}

// validate checks the paths.
func (p packing) validate(job *courier.Context) error {
	_, err := p.sources()
	if err != nil && !job.Unresolved("source_path") && !job.Unresolved("source_paths") {
		return err
	}
	if p.path != "" {
		if err := (request{source: glob.Whole(p.path, p.glob), glob: p.glob}).validateSource(job, "source_path"); err != nil {
			return err
		}
	}
	for _, source := range p.paths {
		if err := (request{source: glob.Whole(source, p.glob), glob: p.glob}).validateSource(job, "source_paths"); err != nil {
			return err
		}
	}
	if p.output == "" {
		return nil
	}
	return checkTarget(job, "output_path", p.output)
}

// cleanup removes an unfinished archive. A finished one stays.
func (p packing) cleanup(job *courier.Context) error {
	return cleanupOutput(job, p.output, p.place)
}

// cleanupOutput removes the unfinished file of a step that makes one file. Find returns its
// place; output is the path from the configuration, if any.
func cleanupOutput(job *courier.Context, output string, find func(*courier.Context) (place, error)) error {
	dst, err := find(job)
	if err == nil {
		err = localfile.Error(dst.name, job.Files().RemoveSideFiles(dst.name))
	}
	if err != nil || output != "" {
		return err
	}
	return removeEarlier(job, "")
}

// made is a finished archive.
type made struct {
	path    string
	entries int
	size    int64
}

// archive makes the archive; write gets the collected items.
func (p packing) archive(ctx context.Context, job *courier.Context, write func(*archive.Writer, []archive.Item) error) (out made, err error) {
	dst, err := p.place(job)
	if err != nil {
		return out, err
	}
	found, err := p.collect(ctx, job, dst)
	if err != nil {
		return out, err
	}
	if _, err := dst.replaceable(); err != nil {
		return out, err
	}
	w, err := job.Files().Create(dst.name)
	if err != nil {
		return out, localfile.Error(dst.name, err)
	}
	defer w.Close()
	items := make([]archive.Item, len(found))
	for i, f := range found {
		items[i] = f.item(job)
	}
	a := archive.NewWriter(w, dst.name, archive.Options{Progress: job.Progress})
	if err := write(a, items); err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, localfile.Error(dst.name, err))
	}
	if out.size, err = a.Verify(ctx); err != nil {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, localfile.Error(dst.name, err))
	}
	out.path, out.entries = dst.name, len(items)
	return out, nil
}
