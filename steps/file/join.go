package file

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// Join is the step type file.join. It joins the parts that [Split] has made, by
// its manifest in either format. The parts lie beside the manifest. Each part,
// and the whole file, must have the size and the SHA-256 that the manifest
// says; otherwise nothing appears under the final name. The zero Join has the
// default limits.
type Join struct {
	Limits Limits // of which Join uses MaxFiles, MaxEntryBytes and KeepFree
}

// JoinConfig is the configuration of file.join.
type JoinConfig struct {
	ManifestPath string `json:"manifest_path" courier:"required,path" doc:"the manifest that file.split wrote"`
	OutputPath   string `json:"output_path,omitempty" courier:"path" doc:"path of the joined file; by default the name in the manifest, in the attempt's own directory, or in this directory if it exists or ends in /"`
}

// JoinOutput is the output of file.join.
type JoinOutput struct {
	JoinedFile string `json:"joined_file" file:"output_path" doc:"path of the file"`
	PartCount  int    `json:"part_count" doc:"number of parts"`
	Size       int64  `json:"size" doc:"of what was written, in bytes"`
	SHA256     string `json:"sha256" doc:"of the file, in hexadecimal digits"`
}

// Execute joins. A second attempt joins again.
func (j Join) Execute(ctx context.Context, job *courier.Context, cfg JoinConfig) (out JoinOutput, err error) {
	manifest, m, err := j.manifest(ctx, job, cfg)
	if err != nil {
		return out, err
	}
	dst, err := cfg.place(job, m.Name)
	if err != nil {
		return out, err
	}
	if _, err := dst.replaceable(); err != nil {
		return out, err
	}
	if dst.name == manifest.name {
		return out, courier.Permanent(fmt.Errorf("%q is the manifest itself; name another output_path", dst.name))
	}
	w, err := job.Files().Create(dst.name)
	if err != nil {
		return out, localfile.Error(dst.name, err)
	}
	defer w.Close()
	x := &joining{job: job, w: w, name: dst.name, manifest: manifest, whole: sha256.New(), size: m.Size}
	x.disk, x.guard = j.Limits.guard(ctx, dst)
	defer x.guard.End()
	for _, p := range m.Parts {
		if err := x.part(ctx, p); err != nil {
			return out, err
		}
	}
	if sum := hex.EncodeToString(x.whole.Sum(nil)); !strings.EqualFold(sum, m.SHA256) {
		return out, fmt.Errorf("%q: the parts are as the manifest says, but together have the SHA-256 %s, not %s; nothing was written to %q", manifest.name, sum, m.SHA256, dst.name)
	}
	info, err := w.Stat()
	if err == nil && info.Size() != m.Size {
		err = fmt.Errorf("it has %d bytes, though %d were written", info.Size(), m.Size)
	}
	if err == nil {
		err = w.Commit()
	}
	if err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, localfile.Error(dst.name, err))
	}
	return JoinOutput{dst.name, len(m.Parts), m.Size, strings.ToLower(m.SHA256)}, nil
}

// manifest reads the manifest.
func (j Join) manifest(ctx context.Context, job *courier.Context, cfg JoinConfig) (p place, m splitManifest, err error) {
	if p, err = at(job, cfg.ManifestPath); err != nil {
		return p, m, err
	}
	f, _, err := p.source(job)
	if err != nil {
		return p, m, err
	}
	defer f.Close()
	m, err = readSplitManifest(ctx, f, j.Limits.withDefaults())
	switch {
	case ctx.Err() != nil:
		return p, m, context.Cause(ctx)
	case errors.Is(err, errRefused):
		return p, m, courier.Permanent(fmt.Errorf("manifest %q: %w", p.name, err))
	case err != nil:
		return p, m, fmt.Errorf("manifest %q: %w", p.name, localfile.Error(p.name, err))
	}
	return p, m, nil
}

// place finds the place of the file that the manifest calls name.
func (cfg JoinConfig) place(job *courier.Context, name string) (place, error) {
	if cfg.OutputPath == "" {
		return at(job, path.Join(job.Files().Dir(), name))
	}
	return target(job, cfg.OutputPath, name)
}

// A joining is the work of one attempt.
type joining struct {
	job      *courier.Context
	w        *courier.PendingFile
	name     string // of the output
	manifest place
	whole    hash.Hash
	size     int64
	done     int64
	synced   int64
	guard    *transfer.Guard
	disk     context.Context // that guard ends
}

// part appends a part.
func (x *joining) part(ctx context.Context, part splitPart) error {
	p, err := x.manifest.beside(x.job, part.Name)
	if err != nil {
		return err
	}
	f, from, err := p.source(x.job)
	if err != nil {
		return err
	}
	defer f.Close()
	if from.Size() != part.Size {
		return x.differs(p, fmt.Sprintf("has %d bytes, not %d", from.Size(), part.Size))
	}
	sum, before := sha256.New(), x.done
	var syncErr error
	n, err := transfer.Copy(x.disk, io.MultiWriter(x.w, sum, x.whole), io.LimitReader(f, part.Size+1), func(done int64) {
		if x.done = before + done; x.done-x.synced >= syncEvery && syncErr == nil {
			x.synced, syncErr = x.done, x.w.Sync()
		}
		x.guard.At(x.done)
		x.job.Progress(x.done, max(x.size, x.done), x.name)
	})
	if err == nil {
		err = syncErr
	}
	if err != nil {
		return fmt.Errorf("join %q to %q: %w", p.name, x.name, localfile.Error(x.name, err))
	}
	if n != part.Size {
		return x.differs(p, fmt.Sprintf("gave %d bytes, not %d", n, part.Size))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); !strings.EqualFold(got, part.SHA256) {
		return x.differs(p, fmt.Sprintf("has the SHA-256 %s, not %s", got, part.SHA256))
	}
	return nil
}

// differs returns the error of a part that does not match the manifest.
func (x *joining) differs(p place, how string) error {
	return fmt.Errorf("part %q %s, as manifest %q says; it is damaged, or has not arrived completely; nothing was written to %q", p.name, how, x.manifest.name, x.name)
}

// Validate checks the paths.
func (j Join) Validate(ctx context.Context, job *courier.Context, cfg JoinConfig) error {
	if err := checkPath(job, "manifest_path", cfg.ManifestPath, false); err != nil {
		return err
	}
	if cfg.OutputPath == "" {
		return nil
	}
	return checkTarget(job, "output_path", cfg.OutputPath)
}

// Cleanup removes an unfinished file. A finished one stays.
func (j Join) Cleanup(ctx context.Context, job *courier.Context, cfg JoinConfig) error {
	if cfg.OutputPath == "" {
		if err := sweepSides(job, job.Files().Dir()); err != nil {
			return err
		}
		return removeEarlier(job, "")
	}
	dst, err := at(job, cfg.OutputPath)
	if err != nil {
		return err
	}
	if info, err := dst.root.Stat(dst.rel); isDirName(cfg.OutputPath) || err == nil && info.IsDir() {
		return sweepSides(job, dst.name)
	}
	return localfile.Error(dst.name, job.Files().RemoveSideFiles(dst.name))
}

// sweepSides removes the unfinished files of this step's attempts in dir, under
// any name.
func sweepSides(job *courier.Context, dir string) error {
	own := stepcontext.Of(job)
	return removeMarked(job, dir, func(name string) bool {
		i := strings.LastIndex(name, sideMark)
		return i > 0 && own.IsSideName(name[:i], name)
	})
}
