package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// Split is the step type file.split. It cuts a file into parts of equal size,
// whose names are the file's name with .001, .002 and so on, and writes a
// manifest with their sizes and SHA-256. The zero Split has the default limits.
//
// Each part appears complete or not at all. An existing manifest is removed
// first and the new one is written last, so all parts exist where a manifest
// exists. Further parts of an earlier, larger file stay.
type Split struct {
	Limits Limits // of which Split uses MaxFiles and KeepFree
}

// SplitConfig is the configuration of file.split.
type SplitConfig struct {
	SourcePath      string         `json:"source_path" courier:"required,path" doc:"the file to split"`
	OutputDirectory string         `json:"output_directory,omitempty" courier:"path" doc:"directory for the parts and the manifest; by default the attempt's own"`
	PartBytes       int64          `json:"part_bytes" courier:"required" min:"1" doc:"size of each part but the last"`
	ManifestFormat  ManifestFormat `json:"manifest_format" default:"json" enum:"json,text" doc:"json, or text for sha256sum"`
}

// SplitOutput is the output of file.split.
type SplitOutput struct {
	ManifestPath string   `json:"manifest_path" file:"output_directory" doc:"path of the manifest"`
	PartFiles    []string `json:"part_files" file:"output_directory" doc:"paths of the parts, in their order"`
	PartCount    int      `json:"part_count" doc:"number of parts"`
	Size         int64    `json:"size" doc:"of the file, in bytes"`
	SHA256       string   `json:"sha256" doc:"of the file, in hexadecimal digits"`
}

// A splitting is the work of one attempt.
type splitting struct {
	job     *courier.Context
	format  ManifestFormat
	guard   *transfer.Guard
	disk    context.Context // that guard ends
	dir     place
	src     place
	file    *os.File
	from    fs.FileInfo
	partial int64 // bytes of a part
	count   int
	sums    splitManifest
	paths   []string
	done    int64
	whole   hash.Hash
}

// Execute splits. A second attempt writes the same files again.
func (s Split) Execute(ctx context.Context, job *courier.Context, cfg SplitConfig) (out SplitOutput, err error) {
	x := &splitting{job: job, format: cfg.ManifestFormat, partial: cfg.PartBytes, whole: sha256.New()}
	if x.dir, err = cfg.directory(job); err != nil {
		return out, err
	}
	if x.src, err = at(job, cfg.SourcePath); err != nil {
		return out, err
	}
	if x.file, x.from, err = x.src.source(job); err != nil {
		return out, err
	}
	defer x.file.Close()
	if err := x.begin(s.Limits.withDefaults().MaxFiles); err != nil {
		return out, err
	}
	x.disk, x.guard = s.Limits.guard(ctx, x.dir)
	defer x.guard.End()
	for n := range x.count {
		if err := x.part(ctx, n); err != nil {
			return out, err
		}
	}
	if out.ManifestPath, err = x.manifest(ctx); err != nil {
		return out, err
	}
	out.PartFiles, out.PartCount, out.Size, out.SHA256 = x.paths, x.count, x.done, x.sums.SHA256
	return out, nil
}

// directory finds the place of the output.
func (cfg SplitConfig) directory(job *courier.Context) (place, error) {
	if cfg.OutputDirectory == "" {
		return at(job, job.Files().Dir())
	}
	return at(job, cfg.OutputDirectory)
}

// begin counts the parts, refuses unusable names, and removes an earlier
// manifest.
func (x *splitting) begin(most int) error {
	size := x.from.Size()
	x.count = int(min(max(1, (size+x.partial-1)/x.partial), int64(most)+1))
	if x.count > most {
		return courier.Permanent(fmt.Errorf("%q: its %d bytes make more than %d parts of %d; make them larger, or see MaxFiles in file.Options", x.src.name, size, most, x.partial))
	}
	x.sums.Name, x.sums.Size = x.src.base(), size
	if err := checkPartName(x.partName(x.count - 1)); err != nil {
		return courier.Permanent(fmt.Errorf("%q can't be split: the name of a part %w", x.src.name, err))
	}
	if info, err := x.dir.root.Stat(x.dir.rel); err == nil && !info.IsDir() {
		return courier.Permanent(fmt.Errorf("output directory %q is %s", x.dir.name, localfile.Kind(info.Mode())))
	}
	old, err := x.dir.in(x.job, x.format.name(x.sums.Name))
	if err != nil {
		return err
	}
	there, err := old.replaceable()
	if there == nil || err != nil {
		return err
	}
	return localfile.Error(old.name, stepcontext.Of(x.job).Unlink(old.name))
}

func (x *splitting) partName(n int) string {
	digits := max(3, len(fmt.Sprint(x.count)))
	return fmt.Sprintf("%s.%0*d", x.sums.Name, digits, n+1)
}

// checkPartName refuses names that mean another file on other systems.
func checkPartName(name string) error {
	if strings.Contains(name, "/") {
		return errors.New("has a slash")
	}
	return archive.CheckName(name)
}

// part writes part n, counting from 0.
func (x *splitting) part(ctx context.Context, n int) error {
	name := x.partName(n)
	dst, err := x.dir.in(x.job, name)
	if err != nil {
		return err
	}
	if _, err := dst.replaceable(); err != nil {
		return err
	}
	w, err := x.job.Files().Create(dst.name)
	if err != nil {
		return localfile.Error(dst.name, err)
	}
	defer w.Close()
	want := min(x.partial, x.sums.Size-x.done)
	sum, before := sha256.New(), x.done
	var synced int64
	var syncErr error
	wrote, err := transfer.Copy(x.disk, io.MultiWriter(w, sum, x.whole), io.LimitReader(x.file, want), func(done int64) {
		if done-synced >= syncEvery && syncErr == nil {
			synced, syncErr = done, w.Sync()
		}
		x.done = before + done
		x.guard.At(x.done)
		x.job.Progress(x.done, max(x.sums.Size, x.done), x.src.name)
	})
	if err == nil {
		err = syncErr
	}
	if err == nil && wrote == want {
		err = x.unchanged()
	} else if err == nil {
		err = fmt.Errorf("%q ended after %d bytes of %d", x.src.name, x.done, x.sums.Size)
	}
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		return fmt.Errorf("split %q to %q: %w", x.src.name, dst.name, localfile.Error(dst.name, err))
	}
	x.sums.Parts = append(x.sums.Parts, splitPart{name, want, hex.EncodeToString(sum.Sum(nil))})
	x.paths = append(x.paths, dst.name)
	return nil
}

// unchanged refuses a source that has changed since the beginning.
func (x *splitting) unchanged() error {
	after, err := x.file.Stat()
	if err == nil && localfile.Identify(after) != localfile.Identify(x.from) {
		err = fmt.Errorf("%q changed while it was being split; no manifest was written", x.src.name)
	}
	return err
}

// manifest writes the manifest and returns its path.
func (x *splitting) manifest(ctx context.Context) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	x.sums.SHA256 = hex.EncodeToString(x.whole.Sum(nil))
	text, err := x.format.encode(x.sums)
	if err != nil {
		return "", err
	}
	dst, err := x.dir.in(x.job, x.format.name(x.sums.Name))
	if err != nil {
		return "", err
	}
	w, err := x.job.Files().Create(dst.name)
	if err != nil {
		return "", localfile.Error(dst.name, err)
	}
	defer w.Close()
	if _, err = w.Write(text); err == nil {
		err = w.Commit()
	}
	if err != nil {
		return "", fmt.Errorf("%q: %w", dst.name, localfile.Error(dst.name, err))
	}
	return dst.name, nil
}

// Validate checks the paths and the size.
func (s Split) Validate(ctx context.Context, job *courier.Context, cfg SplitConfig) error {
	if err := checkPath(job, "source_path", cfg.SourcePath, false); err != nil {
		return err
	}
	if cfg.OutputDirectory == "" {
		return nil
	}
	return checkTarget(job, "output_directory", cfg.OutputDirectory)
}

// Cleanup removes unfinished parts. Finished ones stay.
func (s Split) Cleanup(ctx context.Context, job *courier.Context, cfg SplitConfig) error {
	dir, err := cfg.directory(job)
	if err != nil {
		return err
	}
	err = sweepSides(job, dir.name)
	if err != nil || cfg.OutputDirectory != "" {
		return err
	}
	return removeEarlier(job, "")
}
