package httpreq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/stepcontext"
	"github.com/courierhq/courier/internal/transfer"
)

// toFile writes the content to the file of output_path.
func (p *prepared) toFile(ctx context.Context, resp *http.Response, part *part, out *RequestOutput) error {
	if !part.can(resp) {
		r, err := p.content(resp, p.limit)
		if err != nil {
			return err
		}
		return p.publish(ctx, r, resp.ContentLength, out)
	}
	if err := part.fetch(ctx, resp); err != nil {
		return err
	}
	if _, err := part.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := p.publish(ctx, part.file, part.have, out); err != nil {
		if p.hash != "" && out.SHA256 != "" && out.SHA256 != p.hash {
			part.forget() // the next attempt starts over; the error of the content says more
		}
		return err
	}
	return part.forget()
}

// publish writes the content to a side file, and gives the file its final name
// when it is complete.
func (p *prepared) publish(ctx context.Context, r io.Reader, size int64, out *RequestOutput) error {
	w, err := p.job.Files().Create(p.cfg.OutputPath)
	if err != nil {
		return fmt.Errorf("output_path: %w", err)
	}
	defer w.Close()
	if err := remote.Fits(p.job, p.cfg.OutputPath, p.meter.guard, size, 0); err != nil {
		return fmt.Errorf("output_path: %w", err)
	}
	item := baseName(p.cfg.OutputPath)
	from, here := r.(*os.File)
	say := p.meter.report
	if here {
		say = p.meter.at
	}
	report := func(done int64) {
		if done < size || size < 0 {
			say(item, done, -1)
		}
	}
	var n int64
	if here && p.hash == "" {
		n, err = copyFile(ctx, w, from, report)
	} else if p.hash == "" {
		n, err = transfer.Copy(ctx, w, r, report)
	} else {
		h := sha256.New()
		n, err = transfer.Copy(ctx, hashing{w, h}, r, report)
		out.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if err != nil {
		return p.broken(err)
	}
	out.Size = n
	if out.SHA256 != p.hash {
		return p.wrongHash(out.SHA256)
	}
	if out.DownloadedFile, err = p.job.Files().Path(p.cfg.OutputPath); err != nil {
		return err
	}
	if err := transfer.KeepAlive(p.meter.beat, w.Commit); err != nil {
		return err
	}
	say(item, n, n)
	return nil
}

// copyFile lets the kernel copy if it can.
func copyFile(ctx context.Context, w *courier.PendingFile, from *os.File, report func(int64)) (n int64, err error) {
	const chunk = 32 << 20 // between two looks at ctx
	for {
		if ctx.Err() != nil {
			return n, context.Cause(ctx)
		}
		m, err := io.CopyN(w, from, chunk)
		n += m
		report(n)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// A part is the beginning of a file that has arrived so far. It lies beside the
// directories of the attempts, with a note that identifies the content and
// states how many bytes are on the disk. The zero part belongs to a request
// that is not resumed.
type part struct {
	p    *prepared
	root *os.Root
	rel  string
	file *os.File
	have int64
	note partNote
}

// A partNote identifies the content of a part.
type partNote struct {
	Request string `json:"request"` // which one, as a hash
	ETag    string `json:"etag"`
	Name    string `json:"name"` // of the file, beside the note
	Size    int64  `json:"size"` // that is on the disk
}

const (
	partName  = "download"
	syncEvery = 32 << 20 // bytes between two notes
)

// openPart finds the part that earlier attempts have fetched.
func (p *prepared) openPart(ctx context.Context) (*part, error) {
	dir := p.job.Files().StepDir()
	if !p.cfg.Resume || dir == "" {
		return &part{}, nil
	}
	name := partName + "-" + strconv.Itoa(p.job.Attempt()) + ".courier-tmp"
	root, rel, err := p.job.Files().Root(dir + "/" + name)
	if err != nil {
		return nil, err
	}
	t := &part{p: p, root: root, rel: rel}
	sum := sha256.Sum256([]byte(p.method + " " + p.url.String()))
	id := hex.EncodeToString(sum[:])
	var old partNote
	found, err := note.Read(stepcontext.Of(p.job), partName, &old)
	if err != nil {
		return nil, err
	}
	if !found || old.Request != id || old.Size <= 0 || !filepath.IsLocal(old.Name) {
		t.note = partNote{Request: id, Name: name}
		return t, nil
	}
	from := filepath.Join(filepath.Dir(rel), old.Name)
	if from != rel {
		if err := root.Rename(from, rel); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
	t.note = partNote{Request: id, Name: name}
	f, err := root.OpenFile(rel, os.O_RDWR, 0)
	if os.IsNotExist(err) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || info.Size() < old.Size || old.Size > p.limit {
		f.Close()
		return t, err
	}
	t.file, t.have, t.note.ETag = f, old.Size, old.ETag
	if err := f.Truncate(old.Size); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// ask changes a request so that it asks only for the rest, if the content is
// still the same.
func (t *part) ask(h http.Header) {
	if t.have > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", t.have))
		h.Set("If-Range", t.note.ETag)
	}
}

// stale reports whether a response is neither the continuation of the part nor
// the whole content. A continuation is changed to look like any other response.
func (t *part) stale(resp *http.Response) bool {
	if t.have == 0 {
		return false
	}
	switch resp.StatusCode {
	case http.StatusRequestedRangeNotSatisfiable:
		return true
	case http.StatusPartialContent:
		first, last, total := contentRange(resp.Header.Get("Content-Range"))
		tag := resp.Header.Get("ETag")
		ok := first == t.have && last == total-1 && tag == t.note.ETag &&
			resp.Header.Get("Content-Encoding") == "" && (resp.ContentLength < 0 || resp.ContentLength == total-first)
		if ok {
			t.p.job.Log().Info("the download is continued", "offset", t.have, "size", total)
			resp.StatusCode, resp.ContentLength = http.StatusOK, total-first
		}
		return !ok
	}
	t.have = 0 // the whole content, or an error
	return false
}

// contentRange parses "bytes 5-9/10"; total is 0 if text has another form.
func contentRange(text string) (first, last, total int64) {
	rest, ok := strings.CutPrefix(text, "bytes ")
	span, all, ok2 := strings.Cut(rest, "/")
	a, b, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0
	}
	var errs [3]error
	first, errs[0] = strconv.ParseInt(a, 10, 64)
	last, errs[1] = strconv.ParseInt(b, 10, 64)
	total, errs[2] = strconv.ParseInt(all, 10, 64)
	if errs != [3]error{} || first < 0 || last < first || total <= last {
		return 0, 0, 0
	}
	return first, last, total
}

// can reports whether a later attempt can continue the content that arrives
// now.
func (t *part) can(resp *http.Response) bool {
	if t.p == nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Encoding") != "" {
		return false
	}
	return t.have > 0 || strong(resp.Header.Get("ETag"))
}

// strong reports whether a tag identifies the exact bytes of a content, not
// only its meaning.
func strong(tag string) bool {
	return len(tag) > 2 && len(tag) <= 1000 && tag[0] == '"' && tag[len(tag)-1] == '"'
}

// fetch appends the rest.
func (t *part) fetch(ctx context.Context, resp *http.Response) error {
	if t.have == 0 {
		if err := t.begin(resp.Header.Get("ETag")); err != nil {
			return err
		}
	}
	if _, err := t.file.Seek(t.have, io.SeekStart); err != nil {
		return err
	}
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = t.have + resp.ContentLength
	}
	r, err := t.p.content(resp, t.p.limit-t.have)
	if err != nil {
		return err
	}
	if err := t.p.meter.guard.Fits(total, t.have, t.root, filepath.Dir(t.rel)); err != nil {
		return fmt.Errorf("output_path: %w", err)
	}
	item := "download of " + baseName(t.p.cfg.OutputPath)
	start, synced := t.have, t.have
	t.p.meter.at(item, start, total)
	var failed error
	_, err = transfer.Copy(ctx, t.file, r, func(done int64) {
		t.have = start + done
		t.p.meter.report(item, t.have, total)
		if t.have-synced >= syncEvery && failed == nil {
			synced, failed = t.have, t.save()
		}
	})
	// What is there already is of use whatever happened.
	if e := t.save(); err == nil && failed == nil {
		failed = e
	}
	if err != nil {
		return t.p.broken(err)
	}
	if failed == nil && total >= 0 && t.have != total {
		failed = t.p.broken(io.ErrUnexpectedEOF)
	}
	return failed
}

// begin starts the part of a new content, in a new file.
func (t *part) begin(tag string) error {
	t.close()
	if err := note.Remove(stepcontext.Of(t.p.job), partName); err != nil { // it is about another content
		return err
	}
	if err := t.root.Remove(t.rel); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := t.root.MkdirAll(filepath.Dir(t.rel), 0o700); err != nil {
		return err
	}
	f, err := t.root.OpenFile(t.rel, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	t.file, t.note.ETag = f, tag
	return nil
}

// save makes the part durable and writes its note.
func (t *part) save() error {
	if err := t.file.Sync(); err != nil {
		return err
	}
	t.note.Size = t.have
	return note.Write(stepcontext.Of(t.p.job), partName, t.note)
}

// forget removes the part.
func (t *part) forget() error {
	t.close()
	t.have = 0
	if err := note.Remove(stepcontext.Of(t.p.job), partName); err != nil {
		return err
	}
	if err := t.root.Remove(t.rel); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// close closes the part's file. The file stays.
func (t *part) close() {
	if t.file != nil {
		t.file.Close()
		t.file = nil
	}
}
