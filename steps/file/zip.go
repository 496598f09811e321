package file

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
)

// Zip is the step type file.zip. The zero Zip has the default limits.
//
// The same files give the same bytes: entries are sorted by name, with the files' modification
// times in UTC, truncated to the two seconds of the format, and with the same permissions for
// all. Names that are invalid on some system are refused, so that file.unzip can unpack the
// archive everywhere. The only exception is a name with a colon, as in a time: it is packed, and
// cannot be unpacked on Windows.
//
// An archive appears under its name only after all its content has been unpacked again in memory,
// and the file has been read again from the first to the last byte.
//
// With a password the entries are encrypted with AES-256 as WinZip specifies it
// (AE-2), which 7-Zip and WinZip read; names and sizes stay readable, and the
// bytes differ each time. Content that can't be packed is stored.
type Zip struct {
	Limits Limits // of which Zip uses MaxFiles and MaxMatches
}

// ZipConfig is the configuration of file.zip. It names at least one source.
type ZipConfig struct {
	SourcePath  courier.Pattern   `json:"source_path,omitempty" courier:"any_of=source" doc:"a file or directory to pack, or a pattern. Names of Windows devices and drives, and names that end in a dot or space, are refused; Windows can't unpack names with a colon"`
	SourcePaths []courier.Pattern `json:"source_paths,omitempty" courier:"any_of=source" doc:"several of them"`
	OutputPath  string            `json:"output_path,omitempty" courier:"path" doc:"path of the archive; by default the source's name, or archive, with the ending of the format, in the attempt's own directory, or in this directory if it exists or ends in /"`
	Glob        *bool             `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	Password    string            `json:"password,omitempty" doc:"encrypts the files with AES-256, as a reference such as secret:NAME; names and sizes stay readable"`
}

func (cfg ZipConfig) packing(limits Limits) packing {
	return packing{cfg.SourcePath, cfg.SourcePaths, cfg.OutputPath, cfg.Glob, ".zip", limits.withDefaults()}
}

// ZipOutput is the output of file.zip.
type ZipOutput struct {
	ArchivePath string `json:"archive_path" file:"output_path" doc:"path of the archive"`
	EntryCount  int    `json:"entry_count" doc:"files and empty directories in the archive"`
	Size        int64  `json:"size" doc:"of what was written, in bytes"`
}

// Execute packs. A second attempt makes the archive again.
func (z Zip) Execute(ctx context.Context, job *courier.Context, cfg ZipConfig) (ZipOutput, error) {
	made, err := cfg.packing(z.Limits).archive(ctx, job, func(w *archive.Writer, items []archive.Item) error {
		return w.Zip(ctx, items, cfg.Password)
	})
	return ZipOutput{ArchivePath: made.path, EntryCount: made.entries, Size: made.size}, err
}

// Validate checks the paths.
func (z Zip) Validate(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	return cfg.packing(z.Limits).validate(job)
}

// Cleanup removes an unfinished archive. A finished one stays.
func (z Zip) Cleanup(ctx context.Context, job *courier.Context, cfg ZipConfig) error {
	return cfg.packing(z.Limits).cleanup(job)
}
