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
//
// An upload goes on after a lost connection, at most 3 times in an attempt. If the answer to a
// rename is lost, the step connects again and looks: the name of the side file is only this
// attempt's. Before the rest of a part is added, its end is compared, and of an upload all that
// the server had not confirmed, since a server that works on several requests at once leaves
// holes. Downloads of 1 MiB or more go on where they stopped, if a note proves server, path,
// size, time and run of the system; smaller ones only where a job asks for it, because a note
// costs two syncs. On another host a transfer trusts the cursor as far as it was synced, once a
// second. A part that is thrown away gets another name or mark, since the cursor may be one
// renewal behind and must not speak for the new part. A server that does not rename onto an
// existing file has that file moved aside first, and back if need be.
package remote
