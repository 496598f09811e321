package httpreq

import (
	"sync"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/transfer"
)

// A meter reports the progress of the step, and can repeat the report while no
// bytes move.
type meter struct {
	job   *courier.Context
	guard *transfer.Guard // of the content that is moved

	mu          sync.Mutex
	item        string
	done, total int64
}

// report says that done bytes have arrived.
func (m *meter) report(item string, done, total int64) {
	m.set(item, done, total)
	m.job.Progress(done, total, item)
}

// at says that done bytes are present that have not arrived just now.
func (m *meter) at(item string, done, total int64) {
	m.set(item, done, total)
	m.job.SetProgress(done, total, item)
}

func (m *meter) set(item string, done, total int64) {
	m.mu.Lock()
	m.item, m.done, m.total = item, done, total
	m.mu.Unlock()
	m.guard.At(done)
}

// beat repeats the last report.
func (m *meter) beat() {
	m.mu.Lock()
	item, done, total := m.item, m.done, m.total
	m.mu.Unlock()
	m.job.SetProgress(done, total, item)
}
