package file

import (
	"context"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/archive"
)

// Tar is the step type file.tar. The zero Tar has the default limits.
//
// The same files give the same bytes: entries are sorted by name, with the files' modification
// times in whole seconds, with the same permissions for all, and without owners. Names that are
// invalid on some system are refused, so that file.untar can unpack the archive everywhere. The
// only exception is a name with a colon, as in a time: it is packed, and cannot be unpacked on
// Windows.
//
// An archive appears under its name only after all compressed content has been unpacked again in
// memory, and the file has been read again from the first to the last byte.
type Tar struct {
	Limits Limits // of which Tar uses MaxFiles and MaxMatches
}

// TarFormat says whether and how a tar archive is compressed.
type TarFormat string

// The formats of file.tar. For file.tar the empty TarFormat means TarPlain. For file.untar it
// means that the content decides.
const (
	TarPlain TarFormat = "tar"
	TarGzip  TarFormat = "tar.gz"
	TarZstd  TarFormat = "tar.zst"
)

// UnmarshalText refuses everything but the three values.
func (f *TarFormat) UnmarshalText(text []byte) error {
	return oneOf(f, string(text), "", TarPlain, TarGzip, TarZstd)
}

func (f TarFormat) compression() archive.Compression {
	switch f {
	case TarGzip:
		return archive.Gzip
	case TarZstd:
		return archive.Zstd
	}
	return archive.Plain
}

// TarConfig is the configuration of file.tar. It names at least one source.
type TarConfig struct {
	SourcePath  courier.Pattern   `json:"source_path,omitempty" courier:"any_of=source" doc:"a file or directory to pack, or a pattern. Names of Windows devices and drives, and names that end in a dot or space, are refused; Windows can't unpack names with a colon"`
	SourcePaths []courier.Pattern `json:"source_paths,omitempty" courier:"any_of=source" doc:"several of them"`
	OutputPath  string            `json:"output_path,omitempty" courier:"path" doc:"path of the archive; by default the source's name, or archive, with the ending of the format, in the attempt's own directory, or in this directory if it exists or ends in /"`
	Format      TarFormat         `json:"format" default:"tar" enum:"tar,tar.gz,tar.zst" doc:"tar; tar.gz or tar.zst to compress it"`
	Glob        *bool             `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
}

func (cfg TarConfig) packing(limits Limits) packing {
	if cfg.Format == "" {
		cfg.Format = TarPlain
	}
	return packing{cfg.SourcePath, cfg.SourcePaths, cfg.OutputPath, cfg.Glob, "." + string(cfg.Format), limits.withDefaults()}
}

// TarOutput is the output of file.tar.
type TarOutput struct {
	ArchivePath string `json:"archive_path" file:"output_path" doc:"path of the archive"`
	EntryCount  int    `json:"entry_count" doc:"files and empty directories in the archive"`
	Size        int64  `json:"size" doc:"of what was written, in bytes"`
}

// Execute packs. A second attempt makes the archive again.
func (t Tar) Execute(ctx context.Context, job *courier.Context, cfg TarConfig) (TarOutput, error) {
	made, err := cfg.packing(t.Limits).archive(ctx, job, func(w *archive.Writer, items []archive.Item) error {
		return w.Tar(ctx, items, cfg.Format.compression())
	})
	return TarOutput{ArchivePath: made.path, EntryCount: made.entries, Size: made.size}, err
}

// Validate checks the paths.
func (t Tar) Validate(ctx context.Context, job *courier.Context, cfg TarConfig) error {
	return cfg.packing(t.Limits).validate(job)
}

// Cleanup removes an unfinished archive. A finished one stays.
func (t Tar) Cleanup(ctx context.Context, job *courier.Context, cfg TarConfig) error {
	return cfg.packing(t.Limits).cleanup(job)
}
