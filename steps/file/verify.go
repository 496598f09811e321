package file

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
)

// Verify is the step type file.verify. It checks files against a manifest in
// the format of sha256sum, with SHA-256, SHA-512 or MD5. The zero Verify has
// the default limits.
type Verify struct {
	Limits Limits // of which Verify uses MaxMatches
}

// VerifyConfig is the configuration of file.verify.
type VerifyConfig struct {
	ManifestPath string    `json:"manifest_path" courier:"required,path" doc:"the manifest"`
	Directory    string    `json:"directory,omitempty" courier:"path" doc:"directory of the files; by default that of the manifest"`
	Algorithm    Algorithm `json:"algorithm,omitempty" enum:"sha256,sha512,md5" doc:"sha256, sha512 or md5, to refuse other checksums; by default their length decides"`
	FailIfBad    bool      `json:"fail_if_bad" default:"true" doc:"whether a missing or different file is an error; if not, the output reports it"`
}

// VerifyOutput is the output of file.verify.
type VerifyOutput struct {
	Valid     bool     `json:"valid" doc:"whether all files exist and match the manifest"`
	FileCount int      `json:"file_count" doc:"number of files in the manifest"`
	Size      int64    `json:"size" doc:"of all files together, in bytes"`
	Missing   []string `json:"missing" doc:"missing files, by their names in the manifest"`
	Different []string `json:"different" doc:"files with another checksum, and entries that are no files"`
}

// Execute checks the files. It changes nothing, and so can be repeated.
func (v Verify) Execute(ctx context.Context, job *courier.Context, cfg VerifyConfig) (out VerifyOutput, err error) {
	out.Missing, out.Different = []string{}, []string{}
	manifest, err := at(job, cfg.ManifestPath)
	if err != nil {
		return out, err
	}
	lines, err := v.read(ctx, job, manifest, cfg.Algorithm)
	if err != nil {
		return out, err
	}
	dir := filepath.Dir(manifest.name)
	if cfg.Directory != "" {
		dir = cfg.Directory
	}
	base, err := at(job, dir)
	if err != nil {
		return out, err
	}
	for _, l := range lines {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err := out.check(ctx, job, base, l); err != nil {
			return out, err
		}
	}
	out.FileCount = len(lines)
	out.Valid = len(out.Missing)+len(out.Different) == 0
	if !out.Valid && cfg.FailIfBad {
		return out, fmt.Errorf("manifest %q: %s", manifest.name, out.complaint())
	}
	return out, nil
}

// read reads the manifest and refuses one that cannot be checked.
func (v Verify) read(ctx context.Context, job *courier.Context, manifest place, want Algorithm) ([]sumLine, error) {
	f, _, err := manifest.source(job)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, err := readSums(ctx, f, v.Limits.withDefaults().MaxMatches, v.Limits.withDefaults().MaxPathBytes, nil)
	if err == nil && len(lines) == 0 {
		err = errNoManifest
	}
	for i := 0; i < len(lines) && err == nil; i++ {
		l := lines[i]
		switch a, _ := algorithmOf(l.sum); {
		case want != "" && a != want:
			err = refused("has a sum by %s for %q; the step asks for %s", a, localfile.Shorten(l.name), want)
		case !filepath.IsLocal(filepath.FromSlash(l.name)) || strings.ContainsRune(l.name, 0):
			err = refused("lists %q, which leads out of the directory", localfile.Shorten(l.name))
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errRefused):
		return nil, courier.Permanent(fmt.Errorf("manifest %q: %w", manifest.name, err))
	case err != nil:
		return nil, fmt.Errorf("manifest %q: %w", manifest.name, localfile.Error(manifest.name, err))
	}
	return lines, nil
}

// check compares one file.
func (out *VerifyOutput) check(ctx context.Context, job *courier.Context, base place, l sumLine) error {
	p, err := base.in(job, l.name)
	if err != nil {
		return err
	}
	info, err := p.root.Stat(p.rel)
	switch {
	case localfile.Missing(err):
		out.Missing = append(out.Missing, l.name)
		return nil
	case err != nil:
		return localfile.Error(p.name, err)
	case !info.Mode().IsRegular():
		out.Different = append(out.Different, l.name)
		return nil
	}
	a, _ := algorithmOf(l.sum)
	sum, size, err := sumOf(ctx, job, p, a.new())
	if localfile.Missing(err) {
		out.Missing = append(out.Missing, l.name)
		return nil
	}
	if err != nil {
		return err
	}
	if out.Size += size; sum != l.sum {
		out.Different = append(out.Different, l.name)
	}
	return nil
}

// complaint names the files that do not match.
func (out *VerifyOutput) complaint() string {
	var parts []string
	for _, bad := range []struct {
		what  string
		names []string
	}{{"missing", out.Missing}, {"different", out.Different}} {
		const most = 5
		if n := len(bad.names); n > 0 {
			text := fmt.Sprintf("%d %s: %q", n, bad.what, bad.names[:min(n, most)])
			if n > most {
				text += " and more"
			}
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// Validate checks the paths.
func (v Verify) Validate(ctx context.Context, job *courier.Context, cfg VerifyConfig) error {
	if err := checkPath(job, "manifest_path", cfg.ManifestPath, false); err != nil {
		return err
	}
	if cfg.Directory == "" {
		return nil
	}
	return checkPath(job, "directory", cfg.Directory, false)
}
