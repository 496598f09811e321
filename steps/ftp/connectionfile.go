package ftp

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier/internal/reload"
)

// A ConnectionFile is [Connections] in a file, in the form that [ReadConnections]
// reads. A change of the file takes effect within a second, for executions that
// open the connection later. While a changed file has mistakes, the connections
// that were read before stay in use, and a warning is logged.
type ConnectionFile struct{ source *reload.Source[Map] }

var _ Connections = (*ConnectionFile)(nil)

// OpenConnections reads the connections in a file and returns them as a
// ConnectionFile. Log gets the warnings; nil means none. The error is that of
// ReadConnections.
func OpenConnections(path string, log *slog.Logger) (*ConnectionFile, error) {
	source, err := reload.New(path, log, ReadConnections)
	if err != nil {
		return nil, err
	}
	return &ConnectionFile{source}, nil
}

// Connection returns the connection called id.
func (f *ConnectionFile) Connection(ctx context.Context, id string) (Connection, error) {
	return f.source.Get().Connection(ctx, id)
}

// Reload reads the file at once. After an error, which is that of
// [ReadConnections], the former connections stay in use.
func (f *ConnectionFile) Reload() error { return f.source.Reload() }
