// Package remote has what the steps for file servers share, whatever the
// protocol: how several files are moved at a time, which local files are meant,
// when files are ready, what happens to sources afterwards, how connections are
// read from JSON, and how errors are told.
package remote
