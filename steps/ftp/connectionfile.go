package ftp

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier/internal/connfile"
)

// A Map holds connections by id. It must not be changed while it is in use.
type Map map[string]Connection

// Connection returns the connection called id.
func (m Map) Connection(_ context.Context, id string) (Connection, error) {
	return connfile.Find(m, id)
}

// A ConnectionFile is [Connections] in a file, in the format that [ReadConnections] reads. A
// change of the file takes effect within a second, for executions that open the connection later.
// While a changed file has errors, the previous connections stay in use, and a warning is logged.
// The method Reload reads the file at once.
type ConnectionFile struct{ *connfile.File[Connection] }

var (
	_ Connections = Map(nil)
	_ Connections = (*ConnectionFile)(nil)
)

// OpenConnections reads the connections in a file and returns them as a ConnectionFile. Warnings
// are written to log; nil means that they are dropped. Set and the error are as in
// ReadConnections.
func OpenConnections(path string, log *slog.Logger, set ...func(id string, c *Connection)) (*ConnectionFile, error) {
	f, err := connfile.OpenFile(path, log, func(path string) (map[string]Connection, error) { return ReadConnections(path, set...) })
	if err != nil {
		return nil, err
	}
	return &ConnectionFile{f}, nil
}
