package safehttp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/internal/safename"
)

// How slow a body may be. Only the time counts in which a reader waits.
const (
	maxIdle   = 30 * time.Second // for a read
	minPerSec = 128              // bytes a second, on average after the first maxIdle
)

var errTooSlow = errors.New("the server sends the body too slowly")

// A body is that of a response. Its Read returns the cause of its context when
// that has ended.
type body struct {
	io.ReadCloser
	ctx    context.Context
	timer  *time.Timer
	over   func()
	waited time.Duration
	bytes  int64
}

func newBody(r io.ReadCloser, ctx context.Context, cancel context.CancelCauseFunc, over func()) *body {
	b := &body{ReadCloser: r, ctx: ctx, over: over}
	b.timer = time.AfterFunc(maxIdle, func() { cancel(errTooSlow) })
	b.timer.Stop()
	return b
}

// Read reads.
func (b *body) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, context.Cause(b.ctx)
	}
	start := time.Now()
	b.timer.Reset(maxIdle)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.waited += time.Since(start)
	b.bytes += int64(n)
	switch {
	case err == io.EOF:
		return n, err
	case b.ctx.Err() != nil:
		return n, context.Cause(b.ctx)
	case err != nil:
		return n, plain(err)
	case b.waited > maxIdle && float64(b.bytes) < minPerSec*b.waited.Seconds():
		return n, errTooSlow
	}
	return n, nil
}

// Close closes the body. A connection with a rest on it is closed too.
func (b *body) Close() error {
	b.timer.Stop()
	b.over()
	return b.ReadCloser.Close()
}

// quoted is an error whose text comes in part from outside.
type quoted struct{ err error }

func (e *quoted) Error() string { return safename.Quote(e.err.Error()) }
func (e *quoted) Unwrap() error { return e.err }

// presentable returns err, in quotes if its text could act on a terminal, or
// is very long.
func presentable(err error) error {
	const most = 500
	text := err.Error()
	if len(text) > most || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return &quoted{err}
	}
	return err
}

// IsPermanent reports whether err is one that repeating can't cure: the guard's
// refusal, or a certificate that isn't good.
func IsPermanent(err error) bool {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return true
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return true
	}
	_, ok := errors.AsType[x509.HostnameError](err)
	return ok
}
