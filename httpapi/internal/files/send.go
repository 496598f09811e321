package files

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier/depot"
)

// A patientWriter writes an answer that may take long. Each write has its own time limit, whatever
// time the host's server gives an answer.
type patientWriter struct {
	http.ResponseWriter
	ctl      *http.ResponseController
	patience time.Duration
	until    time.Time // the deadline that was set
}

func newPatient(w http.ResponseWriter, patience time.Duration) *patientWriter {
	return &patientWriter{ResponseWriter: w, ctl: http.NewResponseController(w), patience: patience}
}

// Write implements [http.ResponseWriter].
func (w *patientWriter) Write(p []byte) (int, error) {
	if now := time.Now(); w.until.Sub(now) < w.patience*9/10 {
		w.until = now.Add(w.patience)
		_ = w.ctl.SetWriteDeadline(w.until) // a writer without deadlines has no deadline to extend
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer for [http.ResponseController].
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A StatusError says that a file can't be sent as the request asks. Only headers were set, and
// nothing was sent.
type StatusError struct{ Status int } // 412 or 416, or 500 if the file can't be read

// Error says what is wrong.
func (e *StatusError) Error() string { return http.StatusText(e.Status) }

// Serve answers a request with a file, or with the part of it that the request asks for. It obeys
// conditional headers by the headers ETag, which must be set, and Last-Modified. If the error is
// not a *[StatusError], the answer may have begun.
func Serve(ctx context.Context, w http.ResponseWriter, req *http.Request, o depot.Object, patience time.Duration) error {
	r := req.Clone(ctx)
	if strings.Contains(r.Header.Get("Range"), ",") {
		r.Header.Del("Range") // a client that resumes a download asks for one range
	}
	to := &fileWriter{ResponseWriter: newPatient(w, patience)}
	from := &failing{ReadSeeker: o}
	http.ServeContent(to, r, "", o.Info().Time, from)
	if to.status == 0 {
		return errors.Join(from.err, to.err)
	}
	for _, name := range []string{"Content-Disposition", "Etag", "Last-Modified", "Accept-Ranges", "Content-Type"} {
		w.Header().Del(name)
	}
	w.Header().Set("Cache-Control", "no-store")
	if to.status == http.StatusRequestedRangeNotSatisfiable {
		w.Header().Set("Content-Range", "bytes */"+strconv.FormatInt(o.Info().Size, 10))
	}
	return errors.Join(&StatusError{to.status}, from.err)
}

// A fileWriter passes on the answer of http.ServeContent, except its error answers.
type fileWriter struct {
	http.ResponseWriter
	status int // of an error; 0 for none
	err    error
}

// WriteHeader implements [http.ResponseWriter].
func (w *fileWriter) WriteHeader(status int) {
	if status >= 400 {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *fileWriter) Write(p []byte) (int, error) {
	if w.status != 0 {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// A failing reader remembers the error of a read.
type failing struct {
	io.ReadSeeker
	err error
}

// Read implements [io.Reader].
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.ReadSeeker.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}
