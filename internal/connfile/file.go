package connfile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/reload"
)

// A File holds the connections of a file. A change of the file takes effect within
// a second. While a changed file has mistakes, the connections that were read before
// stay in use, and a warning is logged.
type File[C any] struct{ source *reload.Source[map[string]C] }

// OpenFile reads the connections in the file at path. Log gets the warnings; nil
// means none. The error is that of read.
func OpenFile[C any](path string, log *slog.Logger, read func(path string) (map[string]C, error)) (*File[C], error) {
	source, err := reload.New(path, log, read)
	if err != nil {
		return nil, err
	}
	return &File[C]{source}, nil
}

// Connection returns the connection called id. If there is none, the error
// matches [courier.ErrNotFound].
func (f *File[C]) Connection(_ context.Context, id string) (C, error) {
	return Find(f.source.Get(), id)
}

// Reload reads the file at once. After an error, which is that of the function that
// reads it, the former connections stay in use.
func (f *File[C]) Reload() error { return f.source.Reload() }

// Lookup returns the connection that find finds for id. Its errors name the
// connection. One that matches [courier.ErrNotFound] is permanent.
func Lookup[C any](ctx context.Context, find func(ctx context.Context, id string) (C, error), id string) (C, error) {
	c, err := find(ctx, id)
	if err != nil {
		err = fmt.Errorf("connection %q: %w", id, err)
		if errors.Is(err, courier.ErrNotFound) {
			err = courier.Permanent(err)
		}
	}
	return c, err
}

// Timeouts are the timeouts of a connection in its JSON form. A struct for
// [DecodeStrict] embeds them.
type Timeouts struct {
	ConnectTimeoutSeconds   float64  `json:"connect_timeout_seconds"`
	KeepAliveSeconds        *float64 `json:"keep_alive_seconds"`
	OperationTimeoutSeconds float64  `json:"operation_timeout_seconds"`
}

// Durations returns the timeouts as the fields of a connection hold them.
func (t Timeouts) Durations() (connect time.Duration, keepAlive *time.Duration, operation time.Duration) {
	if t.KeepAliveSeconds != nil {
		keepAlive = new(Seconds(*t.KeepAliveSeconds))
	}
	return Seconds(t.ConnectTimeoutSeconds), keepAlive, Seconds(t.OperationTimeoutSeconds)
}
