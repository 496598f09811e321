package files

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"time"
)

// The time limits of an upload.
const (
	lastsAtMost = 12 * time.Hour // files without an execution are removed after a day
)

// ahead is how many bytes of a body are read before they are needed.
const ahead = 256 << 10

// A body reads the body of a request. It may take any time while bytes arrive: each read starts its
// time limit anew. A body that is too slow on average is an error, and so is one that has too many
// bytes besides its files.
type body struct {
	r        io.Reader
	ctl      *http.ResponseController
	ctx      context.Context
	patience time.Duration
	began    time.Time
	until    time.Time // the deadline that was set

	least  int64     // bytes a second, over each span of patience
	window time.Time // start of the count came, which lasts half of that span
	came   int64
	before int64 // the count of the half before
	took   time.Duration

	most    int64 // bytes besides those of files
	besides int64 // how many of these were read, including those read ahead
	err     error // why reading has stopped
}

// begin returns the reader of the body of a request.
func (r *Receiver) begin(w http.ResponseWriter, req *http.Request) *bufio.Reader {
	now := time.Now()
	r.body = &body{r: req.Body, ctx: req.Context(), ctl: http.NewResponseController(w), patience: r.Patience, began: now, window: now, least: r.MinRate, most: r.MaxFields}
	return bufio.NewReaderSize(r.body, ahead)
}

// Read implements [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if now := time.Now(); b.until.Sub(now) < b.patience*9/10 {
		b.until = now.Add(b.patience)
		_ = b.ctl.SetReadDeadline(b.until) // the host's server may have a shorter one; it is reset at the end of the body
	}
	n, err := b.r.Read(p)
	b.came += int64(n)
	b.besides += int64(n)
	switch {
	case b.besides > b.most+ahead:
		b.err = errorf(TooLarge, "what the body has besides its files has more than %d bytes, which is the limit of this service (Options.MaxBody)", b.most)
	case err != nil && err != io.EOF:
		b.err = errCut()
	case err == nil:
		b.err = b.slow(time.Now())
	}
	if b.err != nil {
		err = b.err
	}
	return n, err
}

// slow returns the error of a body that comes too slowly.
func (b *body) slow(now time.Time) error {
	if now.Sub(b.began) > lastsAtMost {
		return errorf(Invalid, "the upload has taken more than %v, and nothing was kept: send it over a faster connection, or less at once", lastsAtMost)
	}
	took := now.Sub(b.window)
	if took < b.patience/2 {
		return nil
	}
	if b.took > 0 && float64(b.came+b.before) < float64(b.least)*(took+b.took).Seconds() {
		return errorf(Invalid, "the body comes at less than %d bytes a second, which is the limit of this service (Options.MinRate), and nothing was kept: send it over a faster connection", b.least)
	}
	b.window, b.came, b.before, b.took = now, 0, b.came, took
	return nil
}

// errCut is the error of an incomplete body.
func errCut() error {
	return errorf(Invalid, "the body has ended too early, or came too slowly, and nothing was kept: send the request again")
}

// A formReader reads the body of a form, which marks its own end. If the body ends before that, it
// is an error: package mime/multipart would take an end within the head of a part for the end of
// the form.
type formReader struct {
	r    io.Reader
	body *body
}

// Read implements [io.Reader]. It adds the line break after the form, which may be missing.
func (f *formReader) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if n > 0 || err != io.EOF {
		return n, err
	}
	if f.body.err != nil {
		return 0, f.body.err
	}
	f.body.err = errCut()
	return copy(p, "\r\n"), nil
}
