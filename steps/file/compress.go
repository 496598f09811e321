package file

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/localfile"
)

// Gzip is the step type file.gzip. It packs one file in the gzip format.
//
// The same content gives the same bytes: the packed file contains neither the
// name nor the time of the source. It gets the source's modification time. It
// appears under its name only after its content has been unpacked again in
// memory and the file has been read again.
type Gzip struct{}

// Zstd is the step type file.zstd. It is [Gzip] for the Zstandard format.
type Zstd struct{}

// CompressConfig is the configuration of file.gzip and file.zstd.
type CompressConfig struct {
	SourcePath string `json:"source_path" courier:"required,path" doc:"the file to pack"`
	OutputPath string `json:"output_path,omitempty" courier:"path" doc:"path of the packed file; by default the source's name with .gz or .zst, in the attempt's own directory, or in this directory if it exists or ends in /"`
}

// CompressOutput is the output of file.gzip and file.zstd.
type CompressOutput struct {
	CompressedFile string `json:"compressed_file" file:"output_path" doc:"path of the packed file"`
	Size           int64  `json:"size" doc:"of what was written, in bytes"`
}

// Execute packs. A second attempt packs again.
func (Gzip) Execute(ctx context.Context, job *courier.Context, cfg CompressConfig) (CompressOutput, error) {
	return cfg.single(archive.Gzip).compress(ctx, job, archive.Gzip)
}

// Validate checks the paths.
func (Gzip) Validate(ctx context.Context, job *courier.Context, cfg CompressConfig) error {
	return cfg.single(archive.Gzip).validate(job)
}

// Cleanup removes an unfinished file. A finished one stays.
func (Gzip) Cleanup(ctx context.Context, job *courier.Context, cfg CompressConfig) error {
	return cfg.single(archive.Gzip).cleanup(job)
}

// Execute packs. A second attempt packs again.
func (Zstd) Execute(ctx context.Context, job *courier.Context, cfg CompressConfig) (CompressOutput, error) {
	return cfg.single(archive.Zstd).compress(ctx, job, archive.Zstd)
}

// Validate checks the paths.
func (Zstd) Validate(ctx context.Context, job *courier.Context, cfg CompressConfig) error {
	return cfg.single(archive.Zstd).validate(job)
}

// Cleanup removes an unfinished file. A finished one stays.
func (Zstd) Cleanup(ctx context.Context, job *courier.Context, cfg CompressConfig) error {
	return cfg.single(archive.Zstd).cleanup(job)
}

func (cfg CompressConfig) single(f archive.Compression) single {
	return single{cfg.SourcePath, cfg.OutputPath, func(base string) (string, error) { return base + f.Ext(), nil }}
}

// Gunzip is the step type file.gunzip. It unpacks one file in the gzip format,
// which may consist of several members. Nothing appears under the final name
// before everything has been unpacked and the checksums in the file have been
// verified. The name and the time in the file are ignored. The zero Gunzip has
// the default limits.
type Gunzip struct {
	Limits Limits // of which MaxEntryBytes and MaxRatio are used
}

// Unzstd is the step type file.unzstd. It is [Gunzip] for the Zstandard format,
// with windows of at most 128 MiB.
type Unzstd struct {
	Limits Limits // of which MaxEntryBytes and MaxRatio are used
}

// DecompressConfig is the configuration of file.gunzip and file.unzstd.
type DecompressConfig struct {
	SourcePath string `json:"source_path" courier:"required,path" doc:"the file to unpack"`
	OutputPath string `json:"output_path,omitempty" courier:"path" doc:"path of the unpacked file; by default the source's name without .gz or .zst, in the attempt's own directory, or in this directory if it exists or ends in /"`
}

// DecompressOutput is the output of file.gunzip and file.unzstd.
type DecompressOutput struct {
	DecompressedFile string `json:"decompressed_file" file:"output_path" doc:"path of the unpacked file"`
	Size             int64  `json:"size" doc:"of what was written, in bytes"`
}

// Execute unpacks. A second attempt unpacks again.
func (g Gunzip) Execute(ctx context.Context, job *courier.Context, cfg DecompressConfig) (DecompressOutput, error) {
	return cfg.single(archive.Gzip).decompress(ctx, job, archive.Gzip, g.Limits)
}

// Validate checks the paths.
func (g Gunzip) Validate(ctx context.Context, job *courier.Context, cfg DecompressConfig) error {
	return cfg.single(archive.Gzip).validate(job)
}

// Cleanup removes an unfinished file. A finished one stays.
func (g Gunzip) Cleanup(ctx context.Context, job *courier.Context, cfg DecompressConfig) error {
	return cfg.single(archive.Gzip).cleanup(job)
}

// Execute unpacks. A second attempt unpacks again.
func (u Unzstd) Execute(ctx context.Context, job *courier.Context, cfg DecompressConfig) (DecompressOutput, error) {
	return cfg.single(archive.Zstd).decompress(ctx, job, archive.Zstd, u.Limits)
}

// Validate checks the paths.
func (u Unzstd) Validate(ctx context.Context, job *courier.Context, cfg DecompressConfig) error {
	return cfg.single(archive.Zstd).validate(job)
}

// Cleanup removes an unfinished file. A finished one stays.
func (u Unzstd) Cleanup(ctx context.Context, job *courier.Context, cfg DecompressConfig) error {
	return cfg.single(archive.Zstd).cleanup(job)
}

func (cfg DecompressConfig) single(f archive.Compression) single {
	return single{cfg.SourcePath, cfg.OutputPath, func(base string) (string, error) { return unpackedName(f, base) }}
}

// A single is the work of a step that makes one file from one file.
type single struct {
	source, output string
	name           func(base string) (string, error) // of the output by default
}

// place finds the place of the output.
func (s single) place(job *courier.Context) (place, error) {
	src, err := at(job, s.source)
	if err != nil {
		return place{}, err
	}
	name, nameErr := s.name(src.base())
	if s.output == "" {
		if nameErr != nil {
			return place{}, nameErr
		}
		return at(job, path.Join(job.Files().Dir(), name))
	}
	if nameErr != nil { // then output must be the path itself
		dst, err := at(job, s.output)
		if err != nil {
			return place{}, err
		}
		if info, err := dst.root.Stat(dst.rel); isDirName(s.output) || err == nil && info.IsDir() {
			return place{}, nameErr
		}
		return dst, nil
	}
	return target(job, s.output, name)
}

// pair finds the source and the output, and refuses an output that is not
// possible.
func (s single) pair(job *courier.Context) (pair, error) {
	src, err := at(job, s.source)
	if err != nil {
		return pair{}, err
	}
	dst, err := s.place(job)
	if err != nil {
		return pair{}, err
	}
	p := pair{match{place: src, below: src.base()}, dst}
	if _, err := dst.replaceable(); err != nil {
		return p, err
	}
	return p, p.itself()
}

func (s single) validate(job *courier.Context) error {
	if err := checkPath(job, "source_path", s.source, false); err != nil {
		return err
	}
	if s.output == "" {
		return nil
	}
	return checkTarget(job, "output_path", s.output)
}

func (s single) cleanup(job *courier.Context) error {
	return cleanupOutput(job, s.output, s.place)
}

func (s single) compress(ctx context.Context, job *courier.Context, format archive.Compression) (out CompressOutput, err error) {
	p, err := s.pair(job)
	if err != nil {
		return out, err
	}
	f, from, err := p.src.source(job)
	if err != nil {
		return out, err
	}
	defer f.Close()
	w, err := job.Files().Create(p.dst.name)
	if err != nil {
		return out, localfile.Error(p.dst.name, err)
	}
	defer w.Close()
	a := archive.NewWriter(w, p.dst.name, archive.Options{Progress: job.Progress})
	if err := a.Compress(ctx, format, f, from, p.src.name); err != nil {
		return out, fmt.Errorf("%q: %w", p.dst.name, localfile.Error(p.dst.name, err))
	}
	if out.Size, err = a.Verify(ctx); err != nil {
		return out, err
	}
	if err := p.setModified(job, from.ModTime()); err != nil {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("%q: %w", p.dst.name, localfile.Error(p.dst.name, err))
	}
	out.CompressedFile = p.dst.name
	return out, nil
}

func (s single) decompress(ctx context.Context, job *courier.Context, format archive.Compression, limits Limits) (out DecompressOutput, err error) {
	p, err := s.pair(job)
	if err != nil {
		return out, err
	}
	f, from, err := p.src.source(job)
	if err != nil {
		return out, err
	}
	defer f.Close()
	w, err := job.Files().Create(p.dst.name)
	if err != nil {
		return out, localfile.Error(p.dst.name, err)
	}
	defer w.Close()
	limits = limits.withDefaults()
	r, err := archive.OpenStream(ctx, p.src.name, f, format, limits.archive(), func(done, total int64) { job.Progress(done, total, p.src.name) })
	if err == nil {
		defer r.Close()
		out.Size, err = copyStream(ctx, w, r, limits, p.dst)
	}
	if err != nil {
		return out, decompressFailed(ctx, p, err)
	}
	if after, err := f.Stat(); err != nil || localfile.Identify(after) != localfile.Identify(from) {
		return out, fmt.Errorf("%q changed while it was being unpacked; nothing was written to %q", p.src.name, p.dst.name)
	}
	if err := p.setModified(job, from.ModTime()); err != nil {
		return out, err
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("%q: %w", p.dst.name, localfile.Error(p.dst.name, err))
	}
	out.DecompressedFile = p.dst.name
	return out, nil
}

// decompressFailed is the error of a file that could not be unpacked.
func decompressFailed(ctx context.Context, p pair, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, archive.ErrRefused):
		return courier.Permanent(fmt.Errorf("%q: %w; nothing was written to %q", p.src.name, err, p.dst.name))
	case errors.Is(err, archive.ErrDamaged):
		return courier.WithClass(fmt.Errorf("%q: %w; nothing was written to %q", p.src.name, err, p.dst.name), courier.ReasonIntegrity)
	}
	return fmt.Errorf("unpack %q to %q: %w", p.src.name, p.dst.name, localfile.Error(p.dst.name, err))
}

// copyStream writes all of r to w, the pending file for dst, and returns the
// number of bytes written.
func copyStream(ctx context.Context, w *courier.PendingFile, r *archive.StreamReader, limits Limits, dst place) (int64, error) {
	ctx, guard := limits.guard(ctx, dst)
	defer guard.End()
	var synced int64
	var syncErr error
	n, err := r.CopyTo(ctx, w, func(done int64) {
		if done-synced >= syncEvery && syncErr == nil {
			synced, syncErr = done, w.Sync()
		}
		guard.At(done)
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		return n, err
	}
	info, err := w.Stat()
	if err == nil && info.Size() != n {
		err = fmt.Errorf("the file has %d bytes, though %d were written", info.Size(), n)
	}
	return n, err
}

// unpackedName returns the name of the unpacked file for the packed file called
// base.
func unpackedName(f archive.Compression, base string) (string, error) {
	endings := map[string]string{".gz": "", ".tgz": ".tar"}
	if f == archive.Zstd {
		endings = map[string]string{".zst": "", ".tzst": ".tar"}
	}
	for ending, becomes := range endings {
		if n := len(base) - len(ending); n > 0 && strings.EqualFold(base[n:], ending) {
			return base[:n] + becomes, nil
		}
	}
	return "", courier.Permanent(fmt.Errorf("%q does not end in %s, so there is no name for what is in it; give output_path", localfile.Shorten(base), f.Ext()))
}
