package file

import (
	"archive/zip"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// Zip is the step type file.zip. The zero Zip has the default limits.
//
// The same files give the same bytes: entries are in the order of their names,
// with the files' times of modification in UTC, cut to the two seconds of the
// format, and with the same permissions for all. Names that some system can't
// take are refused, so that whatever file.zip packs, file.unzip unpacks
// everywhere.
//
// An archive appears under its name only after it was read again from the
// first to the last byte.
type Zip struct {
	Limits Limits // of which Zip uses MaxFiles and MaxMatches
}

// ZipConfig is the configuration of file.zip. It names at least one source.
type ZipConfig struct {
	SourcePath  string   `json:"source_path,omitempty" doc:"a file or directory to pack, or a pattern"`
	SourcePaths []string `json:"source_paths,omitempty" doc:"several of them"`
	OutputPath  string   `json:"output_path,omitempty" doc:"the archive's path; by default the source's name and .zip, or archive.zip, in the attempt's own directory, or in this directory if it exists or ends in /"`
	Glob        *bool    `json:"glob,omitempty" doc:"whether the sources are patterns; by default those that have * or ? and are the name of no file"`
}

// ZipOutput is the output of file.zip.
type ZipOutput struct {
	ArchivePath string `json:"archive_path" doc:"path of the archive"`
	Entries     int    `json:"entries" doc:"files and empty directories in the archive"`
	Size        int64  `json:"size" doc:"of the archive, in bytes"`
}

// level is the compression level. What can't be compressed costs hardly more
// at this level than to store it, and unlike stored entries, deflated ones can
// be read from a stream by all programs.
const level = 5

// Execute packs. A second attempt makes the archive again.
func (z Zip) Execute(ctx context.Context, job *courier.Context, cfg ZipConfig) (ZipOutput, error) {
	var out ZipOutput
	dst, err := cfg.output(job)
	if err != nil {
		return out, err
	}
	items, err := z.collect(ctx, job, cfg, dst)
	if err != nil {
		return out, err
	}
	if _, err := dst.replaceable(); err != nil {
		return out, err
	}
	w, err := job.Create(dst.name)
	if err != nil {
		return out, fault(dst.name, err)
	}
	defer w.Close()
	p := &packer{job: job, synced: w}
	if err := p.pack(ctx, w, items); err != nil {
		return out, fmt.Errorf("zip %q: %w", dst.name, fault(dst.name, err))
	}
	if out.Size, err = verify(ctx, job, dst.name, w.File, items); err != nil {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("zip %q: %w", dst.name, fault(dst.name, err))
	}
	out.ArchivePath, out.Entries = dst.name, len(items)
	return out, nil
}

// sources are all sources of the configuration.
func (cfg ZipConfig) sources() ([]string, error) {
	all := slices.Clone(cfg.SourcePaths)
	if cfg.SourcePath != "" {
		all = append([]string{cfg.SourcePath}, all...)
	}
	if len(all) == 0 {
		return nil, courier.Permanent(errors.New("source_path or source_paths: is required, but empty"))
	}
	return all, nil
}

// output finds the place of the archive.
func (cfg ZipConfig) output(job *courier.Context) (place, error) {
	all, err := cfg.sources()
	if err != nil {
		return place{}, err
	}
	name := "archive.zip"
	if base := path.Base(filepath.ToSlash(all[0])); len(all) == 1 && !looksLikePattern(all[0], cfg.Glob) && base != "." && base != "/" {
		name = base + ".zip"
	}
	if cfg.OutputPath == "" {
		return at(job, path.Join(job.Dir(), name))
	}
	return target(job, cfg.OutputPath, name)
}

// A packed is a file or an empty directory that goes into an archive.
type packed struct {
	match
	name string // of the entry; a directory's ends in a slash
	size int64  // when it was packed
}

// collect finds what to pack, in the order of the entries' names.
func (z Zip) collect(ctx context.Context, job *courier.Context, cfg ZipConfig, dst place) ([]packed, error) {
	all, err := cfg.sources()
	if err != nil {
		return nil, err
	}
	limits := z.Limits.withDefaults()
	c := &collector{job: job, dst: dst, limits: limits, seen: make(map[string]bool)}
	for _, source := range all {
		s := search{job: job, most: limits.MaxMatches}
		found, _, err := s.find(ctx, source, cfg.Glob)
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
		if files == 0 {
			return nil, fmt.Errorf("%q: there is no file to pack; no archive was made", trim(source))
		}
	}
	slices.SortFunc(c.items, func(a, b packed) int { return cmp.Compare(a.name, b.name) })
	var names tree
	for _, it := range c.items {
		err := checkEntryName(strings.TrimSuffix(it.name, "/"))
		if err == nil {
			err = names.add(strings.TrimSuffix(it.name, "/"), it.info.IsDir())
		}
		if err != nil {
			return nil, courier.Permanent(fmt.Errorf("%q can't be packed: its name in the archive, %q, %w", it.place.name, trim(it.name), err))
		}
	}
	return c.items, nil
}

// A collector gathers what goes into an archive.
type collector struct {
	job    *courier.Context
	dst    place
	limits Limits
	seen   map[string]bool // paths
	items  []packed
}

// add takes a file, or what is in a directory, and returns the number of files.
// The archive itself, which an earlier attempt may have made, stays out of it.
func (c *collector) add(ctx context.Context, m match) (int, error) {
	info, err := m.root.Stat(m.rel)
	if err != nil {
		return 0, fault(m.place.name, err)
	}
	m.info = info
	switch {
	case info.Mode().IsRegular():
		return c.item(packed{match: m, name: m.below})
	case !info.IsDir():
		return 0, courier.Permanent(fmt.Errorf("%q is %s; only files and directories can be packed", m.place.name, kind(info.Mode())))
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
		own := c.job.StepDir()
		if p.name == c.dst.name || strings.Contains(below, sideMark) || own != "" && (place{name: own}).holds(p.name) {
			return nil
		}
		if !typ.IsDir() && !typ.IsRegular() {
			return courier.Permanent(fmt.Errorf("%q is %s; only files and directories can be packed", p.name, kind(typ)))
		}
		info, err := p.stat()
		if err != nil {
			return err
		}
		full[path.Dir(below)] = true
		if typ.IsDir() {
			dirs = append(dirs, match{p, below, info})
			return nil
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

// item takes one file, unless it was given before, and returns 1; but the
// archive itself counts for nothing.
func (c *collector) item(it packed) (int, error) {
	if it.place.name == c.dst.name {
		return 0, nil
	}
	if c.seen[it.place.name] {
		return 1, nil
	}
	c.seen[it.place.name] = true
	c.items = append(c.items, it)
	if len(c.items) > c.limits.MaxFiles {
		return 0, courier.Permanent(fmt.Errorf("there are more than %d files to pack; see MaxFiles in file.Options", c.limits.MaxFiles))
	}
	return 1, nil
}

// A packer writes archives.
type packer struct {
	job     *courier.Context
	deflate *flate.Writer // used for one entry after the other
	synced  *courier.PendingFile
	written int64 // source bytes since the archive was last made durable
}

func (p *packer) pack(ctx context.Context, w io.Writer, items []packed) error {
	b := bufio.NewWriterSize(w, 256<<10)
	zw := zip.NewWriter(b)
	zw.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		if p.deflate != nil {
			p.deflate.Reset(out)
			return p.deflate, nil
		}
		var err error
		p.deflate, err = flate.NewWriter(out, level)
		return p.deflate, err
	})
	for i := range items {
		if err := p.entry(ctx, zw, &items[i]); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := zw.Close(); err != nil {
		return err
	}
	return b.Flush()
}

func (p *packer) entry(ctx context.Context, zw *zip.Writer, it *packed) error {
	h := &zip.FileHeader{Name: it.name, Method: zip.Deflate, Modified: zipTime(it.info.ModTime())}
	if it.info.IsDir() {
		h.Method = zip.Store
		h.SetMode(fs.ModeDir | 0o755)
		_, err := zw.CreateHeader(h)
		return err
	}
	h.SetMode(0o644)
	f, from, err := it.source(p.job)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Modified = zipTime(from.ModTime())
	to, err := zw.CreateHeader(h)
	if err != nil {
		return err
	}
	name, size := it.place.name, from.Size()
	p.job.Progress(0, size, name)
	var syncErr error
	var before int64
	n, err := transfer.Copy(ctx, to, io.LimitReader(f, size+1), func(done int64) {
		if p.written += done - before; p.written >= syncEvery && syncErr == nil {
			p.written, syncErr = 0, p.synced.Sync()
		}
		before = done
		p.job.Progress(done, max(size, done), name)
	})
	if err = cmp.Or(err, syncErr); err != nil {
		return fmt.Errorf("pack %q: %w", name, fault(name, err))
	}
	after, err := f.Stat()
	if err != nil {
		return fault(name, err)
	}
	if n != size || identify(after) != identify(from) {
		return fmt.Errorf("%q changed while it was being packed: it had %d bytes, %d were read, now it has %d; no archive was made", name, size, n, after.Size())
	}
	it.size = size
	return nil
}

// zipTime is a time as all archives can hold it: in UTC, with two seconds'
// resolution, and not before or after what the format's two fields have room
// for.
func zipTime(t time.Time) time.Time {
	first := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
	last := time.Unix(1<<32-2, 0).UTC()
	t = t.UTC().Truncate(2 * time.Second)
	switch {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	}
	return t
}

// verify reads the archive f and compares it with what was packed. It returns
// the archive's size.
func verify(ctx context.Context, job *courier.Context, name string, f *os.File, items []packed) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fault(name, err)
	}
	wrong := func(err error) error {
		return fmt.Errorf("archive %q can't be read back as it was written, and was discarded: %w", name, err)
	}
	zr, err := zip.NewReader(f, info.Size())
	if err != nil {
		return 0, wrong(err)
	}
	inflateInTurn(zr)
	if len(zr.File) != len(items) {
		return 0, wrong(fmt.Errorf("it has %d entries, not %d", len(zr.File), len(items)))
	}
	for i, it := range items {
		e := zr.File[i]
		r, err := e.Open()
		if err != nil {
			return 0, wrong(err)
		}
		n, err := transfer.Copy(ctx, io.Discard, r, func(int64) { job.Progress(0, -1, name) })
		r.Close()
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err != nil:
			return 0, wrong(fmt.Errorf("entry %q: %w", trim(e.Name), err))
		case e.Name != it.name || n != it.size:
			return 0, wrong(fmt.Errorf("entry %d is %q of %d bytes, not %q of %d", i, trim(e.Name), n, trim(it.name), it.size))
		}
	}
	return info.Size(), nil
}

// Validate checks the paths.
func (z Zip) Validate(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	if !job.Unresolved("source_path") && !job.Unresolved("source_paths") {
		if _, err := cfg.sources(); err != nil {
			return err
		}
	}
	if cfg.SourcePath != "" {
		if err := (request{source: cfg.SourcePath, glob: cfg.Glob}).validateSource(job, "source_path"); err != nil {
			return err
		}
	}
	for _, source := range cfg.SourcePaths {
		if err := (request{source: source, glob: cfg.Glob}).validateSource(job, "source_paths"); err != nil {
			return err
		}
	}
	if cfg.OutputPath == "" {
		return nil
	}
	return checkPath(job, "output_path", cfg.OutputPath, true)
}

// Cleanup removes an unfinished archive. A finished one stays.
func (z Zip) Cleanup(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	dst, err := cfg.output(job)
	if err == nil {
		err = fault(dst.name, job.RemoveSideFiles(dst.name))
	}
	if err != nil || cfg.OutputPath != "" {
		return err
	}
	return removeEarlier(job, "")
}
