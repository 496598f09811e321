// Package steplog keeps what a step writes to its log, to be stored with the record of the
// attempt.
package steplog

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"unicode/utf8"
)

// Least is the smallest number of bytes for which a log can be kept.
const Least = 1 << 10

// A Log is the log of one attempt. It keeps the first and the last lines of what is
// written, in the form of [slog.TextHandler] with times in UTC. It keeps the records from
// level info on, and those of lower levels that its next handler takes. A Log that nobody
// writes to costs next to nothing.
type Log struct {
	most    int
	secrets Cleaner
	root    handler
	logger  slog.Logger

	mu     sync.Mutex
	closed bool
	*kept  // nil until something is written
}

// A Cleaner removes secrets from text.
type Cleaner interface{ Clean(text string) string }

// kept is what was written to a log.
type kept struct {
	base       slog.Handler // for the records, which writes the lines to the log
	head, tail []byte
	full       bool // the head takes no more lines
	written    int64
	lines      int // that were dropped from the tail
	bytes      int // of those
}

// Open returns a logger that writes to the log and to next, which may be nil. The log
// keeps at most so many bytes, and none if most is not positive.
func (l *Log) Open(next *slog.Logger, most int, secrets Cleaner) *slog.Logger {
	if most <= 0 {
		return next
	}
	l.most, l.secrets = max(most, Least), secrets
	l.root = handler{log: l}
	if next != nil {
		l.root.next = next.Handler()
	}
	l.logger = *slog.New(&l.root) // without an allocation
	return &l.logger
}

// A handler writes records to the log and to the next handler.
type handler struct {
	log  *Log
	text slog.Handler // with the attributes and groups of this handler; nil: the base of the log
	next slog.Handler // nil if there is none
}

func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next != nil && h.next.Enabled(ctx, level)
}

func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var err error
	if h.next != nil && h.next.Enabled(ctx, r.Level) {
		err = h.next.Handle(ctx, r.Clone())
	}
	r.Time = r.Time.UTC()
	_ = h.format().Handle(ctx, r) // what it writes to has no errors
	return err
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h *handler) WithGroup(name string) slog.Handler {
	return h.with(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h *handler) with(change func(slog.Handler) slog.Handler) slog.Handler {
	changed := &handler{log: h.log, text: change(h.format())}
	if h.next != nil {
		changed.next = change(h.next)
	}
	return changed
}

// format is the handler that formats records for the log.
func (h *handler) format() slog.Handler {
	if h.text != nil {
		return h.text
	}
	l := h.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = new(kept)
		l.base = slog.NewTextHandler(lines{l}, &slog.HandlerOptions{Level: slog.Level(math.MinInt)})
	}
	return l.base
}

// lines takes the lines of a handler, one in each call.
type lines struct{ log *Log }

// Write adds a line.
func (w lines) Write(line []byte) (int, error) {
	l := w.log
	clean := l.secrets.Clean(string(line))
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.written++
		l.add(clean)
	}
	return len(line), nil
}

// note is enough for the line that says what was left out.
const note = 64

// half is how many bytes the head has at most, and the tail.
func (l *Log) half() int { return (l.most - note) / 2 }

func (l *Log) add(line string) {
	if most := l.half(); len(line) > most {
		const cut = "... (cut)\n"
		end := most - len(cut)
		for end > 0 && !utf8.RuneStart(line[end]) {
			end--
		}
		line = line[:end] + cut
	}
	if l.full = l.full || len(l.head)+len(line) > l.half(); !l.full {
		l.head = append(l.head, line...)
		return
	}
	l.tail = append(l.tail, line...)
	if len(l.tail) > 2*l.half() {
		l.trim()
	}
}

// trim drops the first lines of the tail until the rest has at most half of the bytes.
func (l *Log) trim() {
	drop := 0
	for len(l.tail)-drop > l.half() {
		drop += bytes.IndexByte(l.tail[drop:], '\n') + 1
		l.lines++
	}
	l.bytes += drop
	l.tail = append(l.tail[:0], l.tail[drop:]...)
}

// Recent returns the last lines that were written, of at most so many bytes, and how many lines
// were written in all.
func (l *Log) Recent(most int) (text string, lines int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.kept == nil {
		return "", 0
	}
	last := l.tail
	if len(last) == 0 {
		last = l.head
	}
	if cut := len(last) - most; cut > 0 {
		last = last[cut-1:] // from the next line on
		last = last[bytes.IndexByte(last, '\n')+1:]
	}
	return strings.ToValidUTF8(string(last), "\uFFFD"), l.written
}

// Close returns what was kept, without the secrets that are known by now, and keeps
// nothing more. If lines are missing, a line in their place says how many. A second call
// returns nothing.
func (l *Log) Close() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.kept == nil || len(l.head) == 0 && len(l.tail) == 0 {
		l.closed = true
		return ""
	}
	l.closed = true
	// Secrets that became known since are longer now.
	l.head, l.tail = []byte(l.secrets.Clean(string(l.head))), []byte(l.secrets.Clean(string(l.tail)))
	l.trim()
	for len(l.head) > l.half() {
		end := bytes.LastIndexByte(l.head[:len(l.head)-1], '\n') + 1
		l.lines++
		l.bytes += len(l.head) - end
		l.head = l.head[:end]
	}
	missing := ""
	if l.lines > 0 {
		missing = fmt.Sprintf("... %d lines with %d bytes are left out\n", l.lines, l.bytes)
	}
	return strings.ToValidUTF8(string(l.head)+missing+string(l.tail), "\uFFFD")
}
