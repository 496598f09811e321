package file

import (
	"context"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
)

// Untar is the step type file.untar. The zero Untar has the default limits.
//
// It is [Unzip] for tar archives, plain or compressed: nothing is published
// before the whole archive was read and found to be all right, and a hostile,
// damaged or oversized one leaves nothing behind. Only regular files and
// directories are unpacked; an archive with links, devices, sparse files or
// anything else is refused, as is one that has the same file twice. A directory
// may be there twice. Owners and permissions in the archive are not used, nor are
// labels and what PAX records of star, git and other programs add.
//
// An archive without an end may have been cut, and of what stands behind the end
// some programs read more and others nothing: both are refused. One block of zeros
// is an end, and any number of them may follow, behind gzip too.
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

// Cleanup removes what attempts unpacked and did not come to publish; but what
// an attempt was about to publish is kept for the next one, unless the
// execution is being cancelled.
func (u Untar) Cleanup(ctx context.Context, job *courier.Context, cfg UntarConfig) error {
	return u.extraction(job, cfg).cleanup(ctx)
}
