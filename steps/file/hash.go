package file

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/localfile"
)

// Hash is the step type file.hash. It writes a manifest of the checksums of
// files, in the format of sha256sum and similar programs.
//
// If the source is a directory or a pattern, a name in the manifest is the path
// of the file below the directory or below the fixed part of the pattern. If
// the source is a file, the name is the last element of its path. The lines are
// sorted by name. The zero Hash has the default limits.
type Hash struct {
	Limits Limits // of which Hash uses MaxMatches
}

// HashConfig is the configuration of file.hash. It names at least one source.
type HashConfig struct {
	SourcePath  courier.Pattern   `json:"source_path,omitempty" courier:"any_of=source" doc:"a file, a directory with everything in it, or a pattern"`
	SourcePaths []courier.Pattern `json:"source_paths,omitempty" courier:"any_of=source" doc:"several of them"`
	OutputPath  string            `json:"output_path,omitempty" courier:"path" doc:"path of the manifest; by default SHA256SUMS, SHA512SUMS or MD5SUMS, in the attempt's own directory, or in this directory if it exists or ends in /"`
	Algorithm   Algorithm         `json:"algorithm" default:"sha256" enum:"sha256,sha512,md5" doc:"sha256, sha512, or md5, which detects accidents but not forgeries"`
	Glob        *bool             `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
}

// HashOutput is the output of file.hash.
type HashOutput struct {
	ManifestPath string `json:"manifest_path" doc:"path of the manifest"`
	FileCount    int    `json:"file_count" doc:"number of files in the manifest"`
	Size         int64  `json:"size" doc:"of all files together, in bytes"`
	Hash         string `json:"hash,omitempty" doc:"the checksum in hexadecimal digits, if there is only one file"`
}

func (cfg HashConfig) packing(limits Limits) packing {
	return packing{cfg.SourcePath, cfg.SourcePaths, cfg.OutputPath, cfg.Glob, "", limits.withDefaults()}
}

// place finds the place of the manifest.
func (cfg HashConfig) place(job *courier.Context) (place, error) {
	if cfg.Algorithm == "" {
		cfg.Algorithm = SHA256
	}
	name := strings.ToUpper(string(cfg.Algorithm)) + "SUMS"
	if cfg.OutputPath == "" {
		return at(job, path.Join(job.Files().Dir(), name))
	}
	return target(job, cfg.OutputPath, name)
}

// Execute hashes. A second attempt writes the manifest again.
func (h Hash) Execute(ctx context.Context, job *courier.Context, cfg HashConfig) (out HashOutput, err error) {
	dst, err := cfg.place(job)
	if err != nil {
		return out, err
	}
	if _, err := dst.replaceable(); err != nil {
		return out, err
	}
	files, err := h.collect(ctx, job, cfg, dst)
	if err != nil {
		return out, err
	}
	w, err := job.Files().Create(dst.name)
	if err != nil {
		return out, localfile.Error(dst.name, err)
	}
	defer w.Close()
	for _, f := range files {
		sum, size, err := sumOf(ctx, job, f.place, cfg.Algorithm.new())
		if err != nil {
			return out, err
		}
		if _, err := w.WriteString(sumLine{sum, f.below}.String()); err != nil {
			return out, localfile.Error(dst.name, err)
		}
		out.Size += size
		if len(files) == 1 {
			out.Hash = sum
		}
	}
	if err := w.Commit(); err != nil {
		return out, fmt.Errorf("%q: %w", dst.name, localfile.Error(dst.name, err))
	}
	out.ManifestPath, out.FileCount = dst.name, len(files)
	return out, nil
}

// collect finds the files, sorted by their names in the manifest. It leaves out
// the manifest itself.
func (h Hash) collect(ctx context.Context, job *courier.Context, cfg HashConfig, dst place) ([]match, error) {
	sources, err := cfg.packing(h.Limits).sources()
	if err != nil {
		return nil, err
	}
	var all []match
	for _, source := range sources {
		found, err := h.find(ctx, job, source, cfg.Glob)
		if err != nil {
			return nil, err
		}
		before := len(found)
		found = slices.DeleteFunc(found, func(m match) bool { return m.name == dst.name })
		if len(found) == 0 && before > 0 {
			return nil, sameFile(source, dst, "manifest")
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%q: there is no file to hash; no manifest was written", localfile.Shorten(source.String()))
		}
		all = append(all, found...)
	}
	slices.SortStableFunc(all, func(a, b match) int { return cmp.Or(cmp.Compare(a.below, b.below), cmp.Compare(a.name, b.name)) })
	all = slices.CompactFunc(all, func(a, b match) bool { return a.name == b.name })
	for i := 1; i < len(all); i++ {
		if all[i].below == all[i-1].below {
			return nil, courier.Permanent(fmt.Errorf("%q and %q would have the same name in the manifest, %q; hash them in two steps", all[i-1].name, all[i].name, all[i].below))
		}
	}
	return all, nil
}

// find finds the files of a source.
func (h Hash) find(ctx context.Context, job *courier.Context, source courier.Pattern, as *bool) ([]match, error) {
	limits := h.Limits.withDefaults()
	s := search{job: job, most: limits.MaxMatches, paths: limits.MaxPathBytes}
	found, pattern, err := s.find(ctx, source, as)
	if err != nil || pattern {
		return found, err
	}
	p := found[0].place
	info, err := p.root.Stat(p.rel)
	switch {
	case err != nil:
		return nil, localfile.Error(p.name, err)
	case info.IsDir():
		return s.matches(ctx, p, "**", -1, false)
	case !info.Mode().IsRegular():
		return nil, courier.Permanent(fmt.Errorf("%q is %s; only files can be hashed", p.name, localfile.Kind(info.Mode())))
	}
	return found, nil
}

// Validate checks the paths.
func (h Hash) Validate(ctx context.Context, job *courier.Context, cfg HashConfig) error {
	return cfg.packing(h.Limits).validate(job)
}

// Cleanup removes an unfinished manifest. A finished one stays.
func (h Hash) Cleanup(ctx context.Context, job *courier.Context, cfg HashConfig) error {
	return cleanupOutput(job, cfg.OutputPath, cfg.place)
}

// errNoManifest is the error of a file that is not a manifest.
var errNoManifest = errors.New("lists no file")
