// Package files receives the files of requests into a depot, and sends files of a depot as answers.
// Both are streams that need little memory, and have no time limit while bytes move.
package files

import (
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/safename"
)

// A Kind is the kind of an [Error].
type Kind int

// The kinds of errors.
const (
	Invalid Kind = iota // the form of the body
	TooLarge
	UnsafeName
	Busy // too many uploads at once
	Full // too many bytes at once
)

// An Error says what is wrong with the request of a client. It quotes nothing from the request
// except the names of fields.
type Error struct {
	Kind    Kind
	Pointer string // to the part, such as "/files/0"; empty for the whole body
	Text    string
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

func errorf(k Kind, format string, args ...any) error {
	return &Error{Kind: k, Text: fmt.Sprintf(format, args...)}
}

// A Receiver puts the files of a request into a depot, as the inputs of an execution that is
// created afterwards. It serves one request, and one goroutine may use it.
type Receiver struct {
	Depot     depot.Depot // nil means that the files of a form are not kept
	ID        courier.ExecutionID
	MaxFiles  int
	MaxBytes  int64         // of all files
	MaxFields int64         // bytes of the body besides the files
	MinRate   int64         // bytes a second
	Patience  time.Duration // for the next bytes
	Share     *Share        // of the sender; nil means no limit

	Files  []File // the received files; files of a form are in alphabetical order of their fields
	Fields []Field
	Unkept int // the number of files in a form that were not kept, without a depot

	body   *body
	folded map[string]bool // the names, in a form that is equal for names that a file system confuses
	size   int64           // of all files
	block  []byte
	begun  bool // the depot may have a part of it
}

// A File is a received file.
type File struct {
	depot.Info
	Field string // of the form; empty if the whole body is the file
}

// A Field is a part of a form that is not a file.
type Field struct {
	Name string // in UTF-8, without NUL
	Text string // as it was sent: any bytes
}

// Form reads a body of the media type multipart/form-data. The result does not depend on the
// framing of the form: the text between the parts, and the order of parts with different names. The
// error is an *[Error], or an error of the depot.
func (r *Receiver) Form(w http.ResponseWriter, req *http.Request) error {
	_, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || params["boundary"] == "" {
		return errorf(Invalid, "the header Content-Type has no boundary: write multipart/form-data; boundary=..., with the text that stands between the parts")
	}
	if err := r.length(req); err != nil {
		return err
	}
	from := r.begin(w, req)
	parts := multipart.NewReader(&formReader{from, r.body}, params["boundary"])
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			slices.SortStableFunc(r.Files, func(a, b File) int { return strings.Compare(a.Field, b.Field) })
			return nil
		}
		if err != nil {
			return r.problem()
		}
		if err := r.part(part); err != nil {
			return err
		}
	}
}

// Whole reads a body that is one file. The error is an *[Error], or an error of the depot.
func (r *Receiver) Whole(w http.ResponseWriter, req *http.Request, name string) error {
	if err := r.length(req); err != nil {
		return err
	}
	return r.file("", name, r.begin(w, req))
}

// Remove removes the received files from the depot.
func (r *Receiver) Remove(ctx context.Context) error {
	if !r.begun {
		return nil
	}
	return r.Depot.Remove(ctx, string(r.ID))
}

// length returns an error if the body is too large by its Content-Length.
func (r *Receiver) length(req *http.Request) error {
	if req.ContentLength-r.MaxFields > r.MaxBytes {
		return r.tooLarge()
	}
	return nil
}

func (r *Receiver) tooLarge() error {
	return errorf(TooLarge, "the files have more than %d bytes, which is the limit of this service for one request (Options.MaxUpload)", r.MaxBytes)
}

// problem returns the error of a body whose parts could not be read.
func (r *Receiver) problem() error {
	if r.body.err != nil {
		return r.body.err
	}
	return errorf(Invalid, "the body can't be read as multipart/form-data: send its parts as RFC 7578 says, each with a Content-Disposition that names it")
}

// part reads a part of the body. It is a file if it has a filename.
func (r *Receiver) part(part *multipart.Part) error {
	disposition, params, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
	if err != nil || disposition != "form-data" {
		return errorf(Invalid, "part %d of the body has no Content-Disposition: form-data, which names it", len(r.Files)+len(r.Fields)+1)
	}
	name, isFile := params["filename"] // FileName of the part would remove directories
	switch {
	case !isFile:
		return r.field(params["name"], part)
	case name == "":
		// Browsers send a part with an empty name if no file was chosen.
		if n, err := io.CopyN(io.Discard, part, 1); n == 0 && err == io.EOF {
			return nil
		}
	}
	if r.Depot == nil {
		r.Unkept++ // NextPart skips the content
		return nil
	}
	if !jsontext.Storable(params["name"]) {
		return r.nameless()
	}
	return r.file(params["name"], name, part)
}

func (r *Receiver) nameless() error {
	return errorf(Invalid, "part %d of the body has no name in UTF-8", len(r.Files)+len(r.Fields)+1)
}

// field reads a part that is not a file. The limit of the body limits its length.
func (r *Receiver) field(name string, from io.Reader) error {
	raw, err := io.ReadAll(from)
	switch {
	case err != nil:
		return r.problem()
	case name == "" || !jsontext.Storable(name):
		return r.nameless()
	}
	r.Fields = append(r.Fields, Field{name, string(raw)})
	return nil
}

// blockSize is the number of bytes of a file that are copied at a time.
const blockSize = 256 << 10

// file reads a file into the depot.
func (r *Receiver) file(field, name string, from io.Reader) error {
	if err := r.check(name); err != nil {
		return err
	}
	if r.block == nil {
		r.block = make([]byte, blockSize)
	}
	r.begun = true
	p, err := r.Depot.Create(r.body.ctx, depot.InputKey(r.ID, name))
	if err != nil {
		return err
	}
	defer p.Close()
	for end := false; !end; {
		n, err := fill(from, r.block)
		if end = err == io.EOF; err != nil && !end {
			return r.problem()
		}
		r.body.besides -= int64(n)
		if r.size += int64(n); r.size > r.MaxBytes {
			return r.tooLarge()
		}
		if err := r.Share.add(int64(n)); err != nil {
			return err
		}
		if _, err := p.Write(r.block[:n]); err != nil {
			return err
		}
	}
	info, err := p.Commit()
	if err != nil {
		return err
	}
	r.Files = append(r.Files, File{info, field})
	return nil
}

// fill reads until a buffer is full, or there is no more.
func fill(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var k int
		k, err = r.Read(buf[n:])
		n += k
	}
	return n, err
}

// check returns what is wrong with the name of the next file.
func (r *Receiver) check(name string) error {
	i := len(r.Files)
	if i >= r.MaxFiles {
		return errorf(TooLarge, "the request has more than %d files, which is the limit of this service (Options.MaxFiles)", r.MaxFiles)
	}
	pointer := fmt.Sprintf("/files/%d", i)
	if err := safename.Portable(name); err != nil {
		return &Error{UnsafeName, pointer, "the name of the file can't be used: " + err.Error()}
	}
	if r.folded == nil {
		r.folded = make(map[string]bool)
	}
	fold := safename.Fold(name)
	if r.folded[fold] {
		return &Error{UnsafeName, pointer, "an earlier file has the same name, or one that differs in letter case only: give each file a name of its own"}
	}
	r.folded[fold] = true
	return nil
}
