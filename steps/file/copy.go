package file

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/glob"
	"github.com/courierhq/courier/internal/localfile"
	"github.com/courierhq/courier/internal/transfer"
)

// Copy is the step type file.copy. The zero Copy has the default limits.
//
// A copy appears under its final name complete or not at all; an existing file is replaced in the
// same instant. The copy has the permissions and the modification time of the source, but not its
// owner or special bits. A source that changes during the copy is an error.
type Copy struct {
	Limits Limits // of which Copy uses MaxMatches and KeepFree
}

// CopyConfig is the configuration of file.copy.
type CopyConfig struct {
	SourcePath      courier.Pattern `json:"source_path" courier:"required" doc:"the file, or a pattern"`
	DestinationPath string          `json:"destination_path" courier:"required,path" doc:"new path; an existing directory, or a path that ends in /, keeps the source's name"`
	IfExists        IfExists        `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	Mode            *Permissions    `json:"mode,omitempty" doc:"permissions as octal digits; those of the source by default"`
	Glob            *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	IgnoreMissing   bool            `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
}

// CopyOutput is the output of file.copy.
type CopyOutput struct {
	CopiedFile   string   `json:"copied_file,omitempty" doc:"path of the copy, the first if there are several"`
	CopiedFiles  []string `json:"copied_files" file:"destination_path" doc:"paths of all copies in the order of their sources, skipped files included"`
	SkippedFiles []string `json:"skipped_files" doc:"destinations that existed and were left as they are"`
	Skipped      bool     `json:"skipped" doc:"whether all destinations existed"`
	Reason       string   `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

// keepsOthers reports whether an existing file that the step has not made stays unchanged.
func (cfg CopyConfig) keepsOthers() bool { return cfg.IfExists == Skip || cfg.IfExists == Fail }

// Execute copies. A second attempt copies again, and replaces the copies of the first attempt
// with the same content.
func (c Copy) Execute(ctx context.Context, job *courier.Context, cfg CopyConfig) (CopyOutput, error) {
	out := CopyOutput{CopiedFiles: []string{}, SkippedFiles: []string{}}
	pairs, _, err := cfg.request().plan(ctx, job, c.Limits.withDefaults())
	if err != nil {
		return out, err
	}
	own := &copies{}
	if cfg.keepsOthers() {
		if own, err = openCopies(ctx, job); err != nil {
			return out, err
		}
		defer own.journal.Close()
	}
	for _, p := range pairs {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		skipped, err := c.one(ctx, job, cfg, p, own)
		if err != nil {
			return out, err
		}
		out.CopiedFiles = append(out.CopiedFiles, p.dst.name)
		if skipped {
			out.SkippedFiles = append(out.SkippedFiles, p.dst.name)
		}
	}
	if len(pairs) > 0 {
		out.CopiedFile = out.CopiedFiles[0]
		if len(out.SkippedFiles) == len(pairs) {
			out.Skipped, out.Reason = true, transfer.ReasonExists
		}
	}
	return out, nil
}

// one copies one file, or skips it.
func (c Copy) one(ctx context.Context, job *courier.Context, cfg CopyConfig, p pair, own *copies) (skipped bool, err error) {
	made, skipped, err := cfg.look(p.dst, own)
	if skipped || err != nil {
		return skipped, err
	}
	if made != nil && made.Attempt == job.ExecutionAttempt() {
		return false, localfile.Error(p.dst.name, job.Files().Wrote(p.dst.name))
	}
	if err := p.itself(); err != nil {
		return false, err
	}
	w, _, err := p.stage(ctx, job, cfg.Mode, c.Limits)
	if err != nil {
		return false, err
	}
	defer w.Close()
	if cfg.keepsOthers() {
		// Another file may have come while the copy was written.
		if _, skipped, err := cfg.look(p.dst, own); skipped || err != nil {
			return skipped, err
		}
		if err := own.note(p.dst.name, w, job.ExecutionAttempt()); err != nil {
			return false, err
		}
	}
	if err := w.Commit(); err != nil {
		return false, fmt.Errorf("copy %q to %q: %w", p.src.name, p.dst.name, localfile.Error(p.dst.name, err))
	}
	return false, nil
}

// look applies if_exists to the file at dst. If an attempt of this step has made that file, look
// returns the note about it. It returns nil if the file may be replaced in any case.
func (cfg CopyConfig) look(dst place, own *copies) (made *copyNote, skip bool, err error) {
	there, err := dst.replaceable()
	if err != nil || there == nil || !cfg.keepsOthers() {
		return nil, false, err
	}
	for _, made := range own.made[dst.name] {
		if made.Copy.Is(there) {
			return &made, false, nil
		}
	}
	if cfg.IfExists == Fail {
		return nil, false, transfer.ErrExists(dst.name)
	}
	return nil, true, nil
}

func (cfg CopyConfig) request() request {
	return request{glob.Whole(cfg.SourcePath, cfg.Glob), cfg.DestinationPath, cfg.Glob, cfg.IgnoreMissing}
}

// Validate checks the paths.
func (c Copy) Validate(ctx context.Context, job *courier.Context, cfg CopyConfig) error {
	return cfg.request().validate(job)
}

// Cleanup removes unfinished copies. Finished ones stay.
func (c Copy) Cleanup(ctx context.Context, job *courier.Context, cfg CopyConfig) error {
	return cfg.request().cleanup(ctx, job, c.Limits.withDefaults())
}

// copies records the copies that attempts of this step have made. A retry does not mistake them
// for files of others that it must not replace.
type copies struct {
	journal *journal
	made    map[string][]copyNote // by target
}

// A copyNote says that the file at Target will have the identity Copy.
type copyNote struct {
	Target string             `json:"target"`
	Copy   localfile.Identity `json:"copy"`
	// Attempt is the attempt of the execution. The next one makes the copy again.
	Attempt int `json:"attempt"`
}

func openCopies(ctx context.Context, job *courier.Context) (*copies, error) {
	j, err := openJournal(ctx, job, "copy")
	if err != nil {
		return nil, err
	}
	c := &copies{journal: j, made: make(map[string][]copyNote)}
	for _, line := range j.lines {
		var n copyNote
		if err := json.Unmarshal(line, &n); err != nil {
			j.Close()
			return nil, err
		}
		c.made[n.Target] = append(c.made[n.Target], n)
	}
	return c, nil
}

// note records the identity of the target before the target exists.
func (c *copies) note(target string, w *courier.PendingFile, attempt int) error {
	info, err := w.Stat()
	if err != nil {
		return err
	}
	return c.journal.add(copyNote{target, localfile.Identify(info), attempt}, false)
}
