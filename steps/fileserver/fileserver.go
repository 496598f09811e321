// Package fileserver has the configurations and outputs that the steps of all protocols
// for file servers have in common: those of packages sftp and ftp. A field that differs
// between the protocols is in the package of each.
package fileserver

import (
	"time"

	"github.com/courierhq/courier"
)

// UploadFields are the fields of an upload's configuration that all protocols have.
type UploadFields struct {
	ConnectionID   string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	LocalPath      courier.Pattern `json:"local_path" courier:"required" doc:"the file to upload, or a pattern, such as out/*.csv, or out/** for all directories below too"`
	RemotePath     string          `json:"remote_path,omitempty" courier:"path" doc:"its path on the server; an existing directory or a path that ends in / gets the file under its local name, with the directories that the pattern has found; by default the login directory"`
	IfExists       string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	Glob           *bool           `json:"glob,omitempty" doc:"whether the path is a pattern; by default, if it has * or ? and no file has that name"`
	IgnoreMissing  bool            `json:"ignore_missing,omitempty" doc:"it is no error if nothing is there"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a remote file with the size and time of the local one counts as uploaded; useful with preserve"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"none; read_back reads each file back and compares it before it gets its name; sidecar writes the SHA-256 into a remote file of the same name and .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the sources when all are transferred: keep, delete, move, or archive, which is move with the time added to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"the local directory into which move and archive move them, with the directories that the pattern has found; it is made if it is missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"only files whose size and time have not changed for so many seconds"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"name of an empty remote file that is written beside each file when all are uploaded; * stands for the file's name, such as in *.done"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"bytes per second of the whole step at most; 0 means no limit"`
}

// An UploadOutput is the output of a step that uploads files.
type UploadOutput struct {
	UploadedFile  string   `json:"uploaded_file,omitempty" doc:"remote path of the file, if there is exactly one"`
	UploadedFiles []string `json:"uploaded_files" doc:"remote paths of all files, in the order of their local ones, those that were there already included"`
	SkippedFiles  []string `json:"skipped_files" doc:"files that were there already and were left as they are"`
	Skipped       bool     `json:"skipped" doc:"whether everything was there already"`
	Reason        string   `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount     int      `json:"file_count" doc:"how many files were transferred"`
	Size          int64    `json:"size" doc:"of what was transferred, in bytes"`
}

// DownloadFields are the fields of a download's configuration that all protocols have.
type DownloadFields struct {
	ConnectionID   string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath     string          `json:"remote_path" courier:"required,path" doc:"the file to download, or a directory; taken from the login directory unless it begins with a slash"`
	Pattern        courier.Pattern `json:"pattern,omitempty" doc:"in a directory, download only files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob           *bool           `json:"glob,omitempty" doc:"wildcards of values in pattern count too; by default only those of the definition do"`
	FollowLinks    bool            `json:"follow_links,omitempty" doc:"links to files count as files; by default they are left out, because a link can lead to files of others"`
	LocalPath      string          `json:"local_path,omitempty" courier:"path" doc:"the file to write; an existing directory or a path that ends in / gets the file under its remote name; by default the attempt's own directory"`
	IfExists       string          `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip or fail"`
	ExpectedSize   *int64          `json:"expected_size,omitempty" min:"0" doc:"bytes that a single file must have, such as context:loop.current_item.size"`
	IgnoreMissing  bool            `json:"ignore_missing,omitempty" doc:"it is no error if nothing is there"`
	OnUnsafeName   string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
	Resume         *bool           `json:"resume,omitempty" doc:"go on where an interrupted attempt stopped, if the remote file has the same size and time; by default for files of 1 MiB or more"`
	SkipIfSame     bool            `json:"skip_if_same,omitempty" doc:"a local file with the size and time of the remote one counts as downloaded"`
	Checksum       string          `json:"checksum" default:"none" enum:"none,read_back,sidecar" doc:"none; read_back reads the remote file again and compares; sidecar compares with the SHA-256 in the remote file of the same name and .sha256"`
	AfterTransfer  string          `json:"after_transfer" default:"keep" enum:"keep,delete,move,archive" doc:"what to do with the sources when all are transferred: keep, delete, move, or archive, which is move with the time added to each name"`
	MoveTo         string          `json:"move_to,omitempty" courier:"path" doc:"the remote directory into which move and archive move them, with the directories below remote_path; it is made if it is missing"`
	StableSeconds  float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"only files whose size and time have not changed for so many seconds"`
	DoneFile       courier.Pattern `json:"done_file,omitempty" doc:"download only files that have a companion of this name in their directory; * stands for the file's name, such as in *.done"`
	BandwidthLimit int64           `json:"bandwidth_limit,omitempty" min:"0" doc:"bytes per second of the whole step at most; 0 means no limit"`
	MaxBytes       int64           `json:"max_bytes,omitempty" min:"0" doc:"the most bytes of a file, at most what the connection allows; 0 means that"`
}

// A DownloadOutput is the output of a step that downloads files.
type DownloadOutput struct {
	DownloadedFile  string    `json:"downloaded_file,omitempty" file:"local_path" doc:"the file, if there is exactly one"`
	DownloadedFiles []string  `json:"downloaded_files" file:"local_path" doc:"all files, in the order of their remote paths, those that were there already included"`
	SkippedFiles    []string  `json:"skipped_files" doc:"files that were there already and were left as they are"`
	Skipped         bool      `json:"skipped" doc:"whether everything was there already"`
	Reason          string    `json:"reason,omitempty" doc:"file_exists when skipped is true"`
	FileCount       int       `json:"file_count" doc:"how many files were transferred"`
	Size            int64     `json:"size" doc:"of what was transferred, in bytes"`
	Modified        time.Time `json:"modified,omitzero" doc:"when the file was last changed on the server, if there is exactly one"`
	UnsafeCount     int       `json:"unsafe_count" doc:"entries of the directory left out because they can't be used or understood"`
	NotReadyCount   int       `json:"not_ready_count" doc:"files of the directory left out because of stable_seconds or done_file"`
}

// A ListConfig is the configuration of a step that lists a directory.
type ListConfig struct {
	ConnectionID       string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath         string          `json:"remote_path" courier:"path" default:"." doc:"directory; taken from the login directory unless it begins with a slash"`
	Pattern            courier.Pattern `json:"pattern,omitempty" doc:"list only what matches, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob               *bool           `json:"glob,omitempty" doc:"wildcards of values in pattern count too; by default only those of the definition do"`
	FollowLinks        bool            `json:"follow_links,omitempty" doc:"links to files count as files; by default they are left out, because a link can lead to files of others"`
	IncludeDirectories bool            `json:"include_directories,omitempty" doc:"list directories as entries of their own"`
	OnUnsafeName       string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
	StableSeconds      float64         `json:"stable_seconds,omitempty" min:"0" max:"86400" doc:"only files whose size and time have not changed for so many seconds"`
}

// A ListOutput is the output of a step that lists a directory.
type ListOutput struct {
	FileList    []File `json:"file_list" doc:"the files, in the order of their paths"`
	FileCount   int    `json:"file_count" doc:"length of file_list"`
	UnsafeCount int    `json:"unsafe_count" doc:"entries left out because they can't be used or understood"`
	// NotReadyCount is 0 unless stable_seconds is set.
	NotReadyCount int `json:"not_ready_count" doc:"files left out because of stable_seconds"`
}

// A File is an entry of a remote directory.
type File struct {
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, for use in other steps"`
	Size        int64     `json:"size" doc:"bytes"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// A StatConfig is the configuration of a step that looks at one file or directory.
type StatConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the file or directory; taken from the login directory unless it begins with a slash"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"it is no error if nothing is there"`
}

// A StatOutput is the output of a step that looks at one file or directory. It is no [File], nor
// an entry of local files: a directory may be there, or nothing, and the server may tell no size.
type StatOutput struct {
	Exists      bool      `json:"exists" doc:"whether there is a file or directory"`
	Name        string    `json:"name" doc:"name within its directory"`
	Path        string    `json:"path" doc:"remote path, as configured"`
	Size        int64     `json:"size" doc:"bytes of the file; 0 for a directory"`
	Modified    time.Time `json:"modified,omitzero" doc:"time of the last change, if the server tells it"`
	IsDirectory bool      `json:"is_directory" doc:"whether it is a directory"`
}

// A DeleteConfig is the configuration of a step that deletes files.
type DeleteConfig struct {
	ConnectionID  string          `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string          `json:"remote_path" courier:"required,path" doc:"the file to delete, or with pattern the directory; taken from the login directory unless it begins with a slash"`
	Pattern       courier.Pattern `json:"pattern,omitempty" doc:"in a directory, delete the files that match, such as *.csv, {a,b}-*, or **/*.csv for all directories below too"`
	Glob          *bool           `json:"glob,omitempty" doc:"wildcards of values in pattern count too; by default only those of the definition do"`
	IgnoreMissing bool            `json:"ignore_missing" default:"true" doc:"it is no error if nothing is there"`
	OnUnsafeName  string          `json:"on_unsafe_name" default:"skip" enum:"skip,fail" doc:"what to do about entries that can't be used: skip or fail"`
}

// A DeleteOutput is the output of a step that deletes files. That of file.delete has its fields
// with documentation of its own, which names local paths.
type DeleteOutput struct {
	DeletedFile  string   `json:"deleted_file,omitempty" doc:"remote path of what was deleted, the first if there are several"`
	DeletedFiles []string `json:"deleted_files" doc:"remote paths of all that was deleted"`
	DeletedCount int      `json:"deleted_count" doc:"length of deleted_files"`
	Existed      bool     `json:"existed" doc:"whether there was anything to delete"`
}

// A RenameConfig is the configuration of a step that renames a file or directory.
type RenameConfig struct {
	ConnectionID    string `json:"connection_id" courier:"required" doc:"the connection to use"`
	SourcePath      string `json:"source_path" courier:"required,path" doc:"the remote file or directory; taken from the login directory unless it begins with a slash"`
	DestinationPath string `json:"destination_path" courier:"required,path" doc:"its new remote path; an existing directory or a path that ends in / gets the file under its old name"`
	IfExists        string `json:"if_exists" default:"overwrite" enum:"overwrite,skip,fail" doc:"what to do if the destination exists: overwrite, skip, which leaves both files as they are, or fail"`
	IgnoreMissing   bool   `json:"ignore_missing,omitempty" doc:"it is no error if nothing is there"`
	MakeDirectories bool   `json:"make_directories,omitempty" doc:"make the directories of destination_path that are missing; by default a missing one is an error"`
}

// A RenameOutput is the output of a step that renames.
type RenameOutput struct {
	RenamedFile string `json:"renamed_file,omitempty" doc:"the new remote path, unless there was nothing to rename"`
	Skipped     bool   `json:"skipped" doc:"whether a file with the new name was there already"`
	Reason      string `json:"reason,omitempty" doc:"file_exists when skipped is true"`
}

// A MkdirConfig is the configuration of a step that makes a directory.
type MkdirConfig struct {
	ConnectionID string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath   string `json:"remote_path" courier:"required,path" doc:"the directory to make; taken from the login directory unless it begins with a slash; that it exists is no error"`
}

// A MkdirOutput is the output of a step that makes a directory.
type MkdirOutput struct {
	CreatedDirectory string `json:"created_directory" doc:"remote path of the directory, whoever made it"`
}

// An RmdirConfig is the configuration of a step that removes a directory.
type RmdirConfig struct {
	ConnectionID  string `json:"connection_id" courier:"required" doc:"the connection to use"`
	RemotePath    string `json:"remote_path" courier:"required,path" doc:"the directory to remove; taken from the login directory unless it begins with a slash"`
	Recursive     bool   `json:"recursive,omitempty" doc:"remove all that is in it too; otherwise it must be empty"`
	IgnoreMissing bool   `json:"ignore_missing" default:"true" doc:"it is no error if nothing is there"`
}

// An RmdirOutput is the output of a step that removes a directory.
type RmdirOutput struct {
	RemovedDirectory string `json:"removed_directory" doc:"remote path of the directory that is gone"`
	Existed          bool   `json:"existed" doc:"whether there was such a directory"`
}
