package file

import (
	"context"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
)

// Untar is the step type file.untar. The zero Untar has the default limits.
//
// It is [Unzip] for tar archives, plain or compressed: nothing is published before the whole
// archive has been read and checked, and a hostile, damaged or oversized archive leaves nothing
// behind. Only regular files and directories are unpacked; an archive with links, devices, sparse
// files or anything else is refused, and so is an archive with the same file twice. A directory
// may occur twice. Owners, permissions and labels in the archive are ignored, and so are
// additional PAX records of star, git and other programs.
//
// An archive without an end mark is refused, since it may be truncated. Data after the end mark
// is refused, since some programs read it and others do not. One block of zeros is an end mark.
// Any number of zero blocks may follow, also after gzip.
type Untar struct {
	Limits Limits // all but MaxDeletes and MaxMatches

	before func(effect string) // for tests: called before each effect
}

// UntarConfig is the configuration of file.untar.
type UntarConfig struct {
	ArchivePath     string    `json:"archive_path" courier:"required,path" doc:"the archive to unpack: V7, ustar, GNU tar or PAX. Refused are links, devices, sparse files, duplicate files, names that lead out of the directory, and archives without an end or with data behind it"`
	OutputDirectory string    `json:"output_directory,omitempty" courier:"path" doc:"directory for the files; by default a new one in the attempt's own directory"`
	Format          TarFormat `json:"format,omitempty" enum:"tar,tar.gz,tar.zst" doc:"tar, tar.gz or tar.zst; by default the content decides"`
	IfExists        IfExists  `json:"if_exists" default:"fail" enum:"overwrite,fail" doc:"what to do if the directory has files: overwrite those of the same name and leave the others, or fail"`
}

// UntarOutput is the output of file.untar.
type UntarOutput = UnzipOutput

// Execute unpacks.
func (u Untar) Execute(ctx context.Context, job *courier.Context, cfg UntarConfig) (UntarOutput, error) {
	return u.extraction(job, cfg).run(ctx)
}

func (u Untar) extraction(job *courier.Context, cfg UntarConfig) *extraction {
	limits := u.Limits.withDefaults()
	return &extraction{
		verb: "untar", job: job, limits: limits, before: u.before,
		archive: cfg.ArchivePath, output: cfg.OutputDirectory, ifExists: cfg.IfExists,
		open: func(_ context.Context, name string, f *os.File) (archive.Archive, error) {
			format := archive.Detect
			if cfg.Format != "" {
				format = cfg.Format.compression()
			}
			return archive.OpenTar(name, f, format, limits.archive())
		},
	}
}

// Validate checks the paths.
func (u Untar) Validate(ctx context.Context, job *courier.Context, cfg UntarConfig) error {
	return u.extraction(job, cfg).validate()
}

// Cleanup removes what attempts unpacked but did not begin to publish. If an attempt was about to
// publish, its files are kept for the next attempt, unless the execution is being cancelled.
func (u Untar) Cleanup(ctx context.Context, job *courier.Context, cfg UntarConfig) error {
	return u.extraction(job, cfg).cleanup(ctx)
}
