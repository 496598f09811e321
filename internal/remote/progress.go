package remote

import (
	"sync/atomic"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// A Meter reports how far the transfer of one file is. Its last byte is
// reported when the file has its final name.
type Meter struct {
	Job   *courier.Context
	Item  string
	Total int64           // -1 if not known
	Done  int64           // as reported
	Guard *transfer.Guard // of what is moved; may be nil

	moved atomic.Int64 // as Done, for other goroutines
}

// At reports that so many bytes are done.
func (m *Meter) At(done int64) {
	m.Guard.At(done)
	m.moved.Store(done)
	if done < m.Total || m.Total < 0 {
		m.Done = done
		m.Job.Progress(done, m.Total, m.Item)
	}
}

// From reports that so many bytes are there before the transfer begins, and are not moved.
// It returns how many.
func (m *Meter) From(done int64) int64 {
	m.Guard.At(done)
	m.moved.Store(done)
	m.Done = done
	m.Beat()
	return done
}

// Compared reports that so many bytes were read again.
func (m *Meter) Compared(done int64) {
	m.Guard.At(done)
	m.Beat()
}

// Beat keeps the stall timeout from firing where there is nothing to count.
func (m *Meter) Beat() { m.Job.SetProgress(m.Done, m.Total, m.Item) }

// Stage says what is being done with a file that takes a while.
func (m *Meter) Stage(name string) {
	if m.Total >= WorthKeeping {
		m.Job.Stage(name)
	}
}

// Finish reports that the file has its final name.
func (m *Meter) Finish() { m.Job.Progress(m.Total, m.Total, m.Item) }

// While calls f and keeps the stall timeout from firing meanwhile, for up to
// five minutes.
func (m *Meter) While(f func() error) error { return transfer.KeepAlive(m.Beat, f) }
