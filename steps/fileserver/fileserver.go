// Package fileserver has the configurations and outputs that the steps of packages sftp and ftp
// have in common. Fields that differ between the protocols are in those packages.
package fileserver

import (
	"time"

	"github.com/courierhq/courier"
)

// UploadFields are the fields of an upload's configuration that all protocols have.
type UploadFields struct {
	ConnectionID   string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath      courier.Pattern `json:"local_path" courier:"required" doc:"the file to upload, or a pattern"`
	RemotePath     string          `json:"remote_path,omitempty" courier:"path" doc:"path on the server; an existing directory, or a path that ends in /, keeps the local name and the directories that the pattern found; by default the login directory"`
	IfExists       string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	Glob           *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default if it has * or ? and no file has that name"`
	IgnoreMissing  bool            `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a file whose size and time are the same on both sides counts as transferred"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"none; read_back: read the remote file once more and compare; sidecar: the SHA-256 is in the remote file of the same name with .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the sources when all are transferred: keep, delete, move, or archive, which moves them and adds the time to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"directory for sources that are moved or archived; their directories are kept, and made if they are missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"take only files whose size and time have not changed for this long; 0 takes all"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"name of an empty file that is written beside each remote file when all are uploaded, such as *.done; * stands for the file's name"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"most bytes per second of the whole step; 0 means no limit"`
}

// An UploadOutput is the output of a step that uploads files.
type UploadOutput struct {
	UploadedFile  string   `json:"uploaded_file,omitempty" doc:"remote path of the file, if there is exactly one"`
	UploadedFiles []string `json:"uploaded_files" doc:"remote paths of all files in the order of their local paths, skipped files included"`
	SkippedFiles  []string `json:"skipped_files" doc:"destinations that existed and were left as they are"`
	Skipped       bool     `json:"skipped" doc:"whether all destinations existed"`
	Reason        string   `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount     int      `json:"file_count" doc:"number of transferred files"`
	Size          int64    `json:"size" doc:"of what was transferred, in bytes"`
}

// DownloadFields are the fields of a download's configuration that all protocols have.
type DownloadFields struct {
	ConnectionID   string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath     string          `json:"remote_path" courier:"required,path" doc:"the file to download, or a directory; taken from the login directory unless it begins with a slash"`
	Pattern        courier.Pattern `json:"pattern,omitempty" doc:"download only matching files of a directory, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob           *bool           `json:"glob,omitempty" doc:"wildcards from referenced values count in pattern too; otherwise only those of the definition do"`
	FollowLinks    bool            `json:"follow_links,omitempty" doc:"links to files count as files; otherwise they are left out, because they can lead to files of others"`
	LocalPath      string          `json:"local_path,omitempty" courier:"path" doc:"path of the local file; an existing directory, or a path that ends in /, keeps the source's name; by default the attempt's own directory"`
	IfExists       string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	ExpectedSize   *int64          `json:"expected_size,omitempty" min:"0" doc:"bytes that a single file must have, such as context:loop.current_item.size; any size by default"`
	IgnoreMissing  bool            `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
	OnUnsafeName   string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
	Resume         *bool           `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the remote file still has its size and time; by default for files of 1 MiB or more"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a file whose size and time are the same on both sides counts as transferred"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"none; read_back: read the remote file once more and compare; sidecar: the SHA-256 is in the remote file of the same name with .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the sources when all are transferred: keep, delete, move, or archive, which moves them and adds the time to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"directory for sources that are moved or archived; their directories are kept, and made if they are missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"take only files whose size and time have not changed for this long; 0 takes all"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"download only files beside which there is a file of this name, such as *.done; * stands for the file's name"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"most bytes per second of the whole step; 0 means no limit"`
	MaxBytes       int64           `json:"max_bytes,omitempty" min:"0" doc:"largest file in bytes; 0 means the limit of the connection, which always holds"`
}

// A DownloadOutput is the output of a step that downloads files.
type DownloadOutput struct {
	DownloadedFile  string    `json:"downloaded_file,omitempty" file:"local_path" doc:"path of the file, if there is exactly one"`
	DownloadedFiles []string  `json:"downloaded_files" file:"local_path" doc:"paths of all files in the order of their remote paths, skipped files included"`
	SkippedFiles    []string  `json:"skipped_files" doc:"destinations that existed and were left as they are"`
	Skipped         bool      `json:"skipped" doc:"whether all destinations existed"`
	Reason          string    `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount       int       `json:"file_count" doc:"number of transferred files"`
	Size            int64     `json:"size" doc:"of what was transferred, in bytes"`
	Modified        time.Time `json:"modified,omitzero" doc:"time of the last change on the server, if there is exactly one file"`
	UnsafeCount     int       `json:"unsafe_count" doc:"entries left out because they can't be used or understood"`
	NotReadyCount   int       `json:"not_ready_count" doc:"files left out because they are not ready"`
}

// A ListConfig is the configuration of a step that lists a directory.
type ListConfig struct {
	ConnectionID       string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath         string          `json:"remote_path" courier:"path" default:"." doc:"directory; taken from the login directory unless it begins with a slash"`
	Pattern            courier.Pattern `json:"pattern,omitempty" doc:"list only what matches, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob               *bool           `json:"glob,omitempty" doc:"wildcards from referenced values count in pattern too; otherwise only those of the definition do"`
	FollowLinks        bool            `json:"follow_links,omitempty" doc:"links to files count as files; otherwise they are left out, because they can lead to files of others"`
	IncludeDirectories bool            `json:"include_directories,omitempty" doc:"list directories as entries of their own"`
	OnUnsafeName       string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
	StableSeconds      float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"take only files whose size and time have not changed for this long; 0 takes all"`
}

// A ListOutput is the output of a step that lists a directory.
type ListOutput struct {
	FileList    []File `json:"file_list" doc:"the files, in the order of their paths"`
	FileCount   int    `json:"file_count" doc:"number of files"`
	UnsafeCount int    `json:"unsafe_count" doc:"entries left out because they can't be used or understood"`
	// NotReadyCount is 0 unless stable_seconds is set.
	NotReadyCount int `json:"not_ready_count" doc:"files left out because they are not ready"`
}

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server reports it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// A StatConfig is the configuration of a step that looks at one file or directory.
type StatConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the file or directory; taken from the login directory unless it begins with a slash"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"a missing file is no error"`
}

// A StatOutput is the output of a step that looks at one file or directory. It is neither a
// [File] nor an entry of local files: the path may be a directory or may not exist, and the
// server may not report a size.
type StatOutput struct {
	Exists      bool      `json:"exists" doc:"whether there is a file or directory"`
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, as configured"`
	Size        int64     `json:"size" doc:"bytes of the file; 0 for a directory"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server reports it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// A DeleteConfig is the configuration of a step that deletes files.
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file to delete, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"delete matching files of a directory, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"wildcards from referenced values count in pattern too; otherwise only those of the definition do"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"a missing file is no error"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
}

// A DeleteOutput is the output of a step that deletes files. The output of file.delete has the
// same fields, but its own documentation, which names local paths.
type DeleteOutput struct {
	DeletedFile  string   `json:"deleted_file,omitempty" doc:"path of what was deleted, the first if there are several"`
	DeletedFiles []string `json:"deleted_files" doc:"remote paths of everything deleted"`
	DeletedCount int      `json:"deleted_count" doc:"number of deleted files"`
	Existed      bool     `json:"existed" doc:"whether there was anything to delete"`
}

// A RenameConfig is the configuration of a step that renames a file or directory.
type RenameConfig struct {
	ConnectionID    string `json:"connection_id" courier:"required" doc:"the connection to use"`
	SourcePath      string `json:"source_path" courier:"required,path" doc:"the remote file or directory; taken from the login directory unless it begins with a slash"`
	DestinationPath string `json:"destination_path" courier:"required,path" doc:"new remote path; an existing directory, or a path that ends in /, keeps the source's name"`
	IfExists        string `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	IgnoreMissing   bool   `json:"ignore_missing,omitempty" doc:"a missing file is no error"`
	MakeDirectories bool   `json:"make_directories,omitempty" doc:"make missing directories of destination_path; otherwise a missing one is an error"`
}

// A RenameOutput is the output of a step that renames.
type RenameOutput struct {
	RenamedFile string `json:"renamed_file,omitempty" doc:"new remote path, unless there was nothing to rename"`
	Skipped     bool   `json:"skipped" doc:"whether all destinations existed"`
	Reason      string `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

// A MkdirConfig is the configuration of a step that makes a directory.
type MkdirConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"the directory to make; taken from the login directory unless it begins with a slash"`
}

// A MkdirOutput is the output of a step that makes a directory.
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"path of the directory"`
}

// An RmdirConfig is the configuration of a step that removes a directory.
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory to remove; taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove everything in it too; otherwise it must be empty"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"a missing file is no error"`
}

// An RmdirOutput is the output of a step that removes a directory.
type RmdirOutput struct {
	RemovedDirectory string `json:"removed_directory" doc:"remote path of the directory that is gone"`
	Existed          bool   `json:"existed" doc:"whether there was anything to delete"`
}
