// Package remote has what the steps for file servers do, whatever the protocol, over
// one interface of a server, [Server]: download, upload with side file, verification
// and publishing, delete, rename, make and remove directories, what happens to the
// sources afterwards, going on after a lost connection, notes, and the clean-up after
// an attempt. A step type has its configuration, converts it, and calls the function
// here with an [Account].
//
// A file gets its final name when it is complete and checked. What can't be had twice
// is noted down before it is done, so that a later attempt knows its own deeds. What
// an attempt leaves behind has a name that the next one knows.
//
// It also reads connections from JSON, and knows which local and remote files are
// meant and when they are ready.
package remote
