package file

import (
	"context"
	"os"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
)

// Unzip is the step type file.unzip. The zero Unzip has the default limits.
//
// An archive is checked as a whole before anything is unpacked, and unpacked as
// a whole, beside its destination, before anything is published: a hostile,
// damaged or oversized archive leaves nothing behind. Only regular files and
// directories are unpacked. They get the modification times in the archive, but
// not the permissions. An entry that is marked as a pipe or socket is treated
// as a file if it has content. Names are decoded as other programs decode them:
// from UTF-8, from code page 437, or from the Info-ZIP field for the name. A
// program may precede the archive (self-extracting); with zip64 the offsets
// must have been adjusted, as by zip -A.
//
// An archive with the same file twice is refused, since some programs take the
// first one and others the last. A directory may occur twice.
//
// The directory is published by one rename. Into an existing directory the
// files are renamed one by one; if the process dies in between, the next
// attempt continues from there.
type Unzip struct {
	Limits Limits // all but MaxDeletes and MaxMatches

	before func(effect string) // for tests: called before each effect
}

// UnzipConfig is the configuration of file.unzip.
type UnzipConfig struct {
	ArchivePath     string   `json:"archive_path" courier:"required,path" doc:"the archive to unpack, with stored or deflated entries. Refused are other methods, links, devices, duplicate files, names that lead out of the directory, and archives that are cut off or have more than 64 KiB behind their end"`
	OutputDirectory string   `json:"output_directory,omitempty" courier:"path" doc:"directory for the files; by default a new one in the attempt's own directory"`
	IfExists        IfExists `json:"if_exists" default:"fail" enum:"overwrite,fail" doc:"what to do if the directory has files: overwrite those of the same name and leave the others, or fail"`
	Password        string   `json:"password,omitempty" doc:"password of an archive encrypted with AES (WinZip AE-1 and AE-2), as a reference such as secret:NAME; unencrypted entries are then refused"`
}

// UnzipOutput is the output of file.unzip.
type UnzipOutput struct {
	ExtractedDirectory string   `json:"extracted_directory" file:"output_directory" doc:"the directory that the files are in"`
	ExtractedFiles     []string `json:"extracted_files" file:"output_directory" doc:"paths of the files, in the order of the archive"`
	FileCount          int      `json:"file_count" doc:"number of files"`
	Size               int64    `json:"size" doc:"of what was written, in bytes"`
}

// Execute unpacks.
func (u Unzip) Execute(ctx context.Context, job *courier.Context, cfg UnzipConfig) (UnzipOutput, error) {
	return u.extraction(job, cfg).run(ctx)
}

func (u Unzip) extraction(job *courier.Context, cfg UnzipConfig) *extraction {
	limits := u.Limits.withDefaults()
	return &extraction{
		verb: "unzip", job: job, limits: limits, before: u.before,
		archive: cfg.ArchivePath, output: cfg.OutputDirectory, ifExists: cfg.IfExists,
		open: func(ctx context.Context, name string, f *os.File) (archive.Archive, error) {
			return archive.OpenZip(ctx, name, f, limits.archive(), cfg.Password)
		},
	}
}

// Validate checks the paths.
func (u Unzip) Validate(ctx context.Context, job *courier.Context, cfg UnzipConfig) error {
	return u.extraction(job, cfg).validate()
}

// Cleanup removes what attempts unpacked but did not begin to publish. If an
// attempt was about to publish, its files are kept for the next attempt, unless
// the execution is being cancelled.
func (u Unzip) Cleanup(ctx context.Context, job *courier.Context, cfg UnzipConfig) error {
	return u.extraction(job, cfg).cleanup(ctx)
}
