// Package remote has what the steps for file servers have in common, written once
// over one interface of a server, [Server]: list, download, upload, delete, rename,
// make and remove directories. A step type of a protocol calls a function of this
// package with its configuration, most of which is a struct of package fileserver, and
// with an [Account], which opens connections.
//
// A file is written under the name of a side file, compared with its source, and
// renamed to its final name when it is complete. An action that must not happen twice
// is written to a note before it happens, so that a later attempt finds out whether an
// earlier one has carried it out. The names of side files follow from the execution
// and the step, so that a later attempt finds and removes those of earlier ones.
//
// An uploaded file is written in fileupload.go and renamed in verifiedrename.go, which
// does that for all steps that give a remote file another name. A downloaded file gets its
// final name in partial.go.
//
// The package also replaces lost connections ([Reconnecting]), tests a connection once
// per execution ([TestOnce]), and lists directories for monitors ([MonitorLister]).
package remote
