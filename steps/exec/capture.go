package exec

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/courierhq/courier"
)

// tailSize is how many bytes of standard error an error shows.
const (
	tailSize = 4 << 10
	tailKept = 2 * tailSize // so that no part of a secret is shown
)

// A capture stores the output of a program: in a file, or as much in memory as
// may become an output. It always keeps the end.
type capture struct {
	field  string
	job    *courier.Context
	name   string // of the file; empty if there is none
	file   *courier.PendingFile
	end    bool // keep the end rather than the beginning
	most   int64
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	n    int64
	kept []byte
	last []byte
	err  error
}

func (r *run) capture(field, name string, end bool, cancel context.CancelCauseFunc) (*capture, error) {
	c := &capture{field: field, job: r.job, name: name, end: end, cancel: cancel}
	if name == "" {
		if c.most = int64(r.opt.MaxOutput); c.most <= 0 {
			c.most = defaultMaxOutput
		}
		return c, nil
	}
	if c.most = r.opt.MaxBytes; c.most <= 0 {
		c.most = defaultMaxBytes
	}
	var err error
	if c.file, err = r.job.Files().Create(name); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return c, nil
}

// Write stores a block. It never fails, since the program would then get an
// error: after an error the program is ended instead.
func (c *capture) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += int64(len(b))
	c.last = lastOf(c.last, b, tailKept)
	switch {
	case c.err != nil:
	case c.file != nil && c.n > c.most:
		c.fail(errf("%s: %w: more than %d bytes", c.field, errTooLarge, c.most))
	case c.file != nil:
		if _, err := c.file.Write(b); err != nil {
			c.fail(fmt.Errorf("%s: %w", c.field, err))
		}
		c.job.Progress(c.n, -1, c.name)
	case c.end:
		c.kept = lastOf(c.kept, b, int(c.most))
	default:
		c.kept = append(c.kept, b[:min(len(b), int(c.most)-len(c.kept))]...)
	}
	return len(b), nil
}

func (c *capture) fail(err error) {
	c.err = err
	c.cancel(err)
}

// lastOf returns the last bytes of a and b together, at most most.
func lastOf(a, b []byte, most int) []byte {
	if len(b) >= most {
		return append(a[:0], b[len(b)-most:]...)
	}
	if over := len(a) + len(b) - most; over > 0 {
		a = a[:copy(a, a[over:])]
	}
	return append(a, b...)
}

func (c *capture) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *capture) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.last)
}

// text returns the text that becomes an output, and reports whether it is
// truncated.
func (c *capture) text() (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		return "", false
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(c.kept), "\uFFFD"), "\x00", "\uFFFD"), c.n > c.most
}

// commit gives the file its name.
func (c *capture) commit() (string, error) {
	if c.file == nil {
		return "", nil
	}
	if err := c.file.Commit(); err != nil {
		return "", err
	}
	c.job.Progress(c.n, c.n, c.name)
	return c.job.Files().Path(c.name)
}

// close discards the file unless it was committed. A process of the program
// that left the group may still hold the pipe, but its output is discarded.
func (c *capture) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = errTooLarge
	}
	if c.file != nil {
		c.file.Close()
	}
}

// printable returns text without characters that control a terminal.
func printable(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if r == '\n' || strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
