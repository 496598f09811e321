package remote

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/courierhq/courier"
)

// A cursor is what a transfer saves for the next attempt on any worker, see
// [courier.Context.SaveCursor]: the files that are under way, and how much of each is safe.
// Where the notes in the workspace are within reach, they tell the same and more.
type cursor struct {
	job   *courier.Context
	mu    sync.Mutex
	parts []cursorPart // those of the attempt before that this one has not come to included
}

// A cursorPart is a file of which a part is there.
type cursorPart struct {
	Server   string `json:"server"`   // "host:port"
	Remote   string `json:"remote"`   // path of the source, or of the final file
	Part     string `json:"part"`     // of an upload the remote path of the part; of a download which part it is, see partNote.Begun
	Size     int64  `json:"size"`     // of the source
	Modified int64  `json:"modified"` // of the source, in nanoseconds since 1970
	Done     int64  `json:"done"`     // bytes that are on the disk, or that the server has confirmed
}

// same reports whether p and q are parts of the same content.
func (p cursorPart) same(q cursorPart) bool {
	p.Done = q.Done
	return p == q
}

type savedParts struct {
	Parts []cursorPart `json:"parts"`
}

// openCursor returns the cursor with what the attempt before has saved.
func openCursor(job *courier.Context) *cursor {
	var saved savedParts
	job.Cursor(&saved)
	return &cursor{job: job, parts: saved.Parts}
}

// done returns how much of a part is safe.
func (c *cursor) done(p cursorPart) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.IndexFunc(c.parts, p.same); i >= 0 {
		return c.parts[i].Done, true
	}
	return 0, false
}

// set replaces what is saved of the file of p. If drop is set, nothing is.
func (c *cursor) set(p cursorPart, drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.parts)
	c.parts = slices.DeleteFunc(c.parts, func(q cursorPart) bool { return q.Server == p.Server && q.Remote == p.Remote })
	if drop && len(c.parts) == n {
		return
	}
	if !drop {
		c.parts = append(c.parts, p)
	}
	slices.SortStableFunc(c.parts, func(p, q cursorPart) int { return cmp.Compare(q.Done, p.Done) })
	for most := len(c.parts); most > 0; most-- { // those with the most, as many as a cursor can hold
		if c.job.SaveCursor(savedParts{c.parts[:most]}) == nil {
			return
		}
	}
	c.job.SaveCursor(nil)
}

// saveEvery is how long a cursor is behind at most, besides the renewals of the lease that
// it is sent with. A download is synced as often.
const saveEvery = time.Second

// follow saves how far a file of size bytes is, until the caller calls end with what became
// of it. Reached returns how much is safe. A file that is not worth keeping is not followed.
func (c *cursor) follow(size int64, reached func() (cursorPart, error)) (end func(error)) {
	if size < WorthKeeping {
		return func(error) {}
	}
	var saved cursorPart
	save := func() {
		if p, err := reached(); err == nil && p != saved {
			c.set(p, false)
			saved = p
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(saveEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				save()
			case <-stop:
				return
			}
		}
	}()
	return func(err error) {
		close(stop)
		if <-stopped; err != nil {
			save() // goes with the hand-over
		}
	}
}
