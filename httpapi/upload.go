package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/flow"
	"github.com/courierhq/courier/httpapi/internal/files"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/store"
)

// An UploadedFile is a file that came with a request, in the form of a parameter.
type UploadedFile struct {
	Name   string `json:"name"`            // given by the client
	Field  string `json:"field,omitempty"` // the name of its part of the form; empty if the whole body is the file
	Size   int64  `json:"size"`            // in bytes
	SHA256 string `json:"sha256"`          // in 64 hexadecimal digits, in small letters
}

// An upload is a request with files. The files become the inputs of an execution that is created
// afterwards.
type upload struct {
	*files.Receiver
	c    *call
	kept bool // the files belong to an execution, or may belong to one

	jobField string // the field that picks the job; empty if none does
}

const (
	formMedia   = "multipart/form-data"
	paramsField = "params"  // a part with an object of parameters
	userField   = "user_id" // a part that must be the principal
	filesParam  = "files"   // the parameter that lists the files

	expiresField = "expires_seconds" // a part with the time in which the execution must begin
)

// isForm reports whether the body is a form.
func (c *call) isForm() bool {
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	return kind == formMedia
}

// upload returns the upload of a request. It reads nothing of the body.
func (c *call) upload() (*upload, error) {
	opt := &c.h.opt
	if opt.Depot == nil {
		return nil, errNoDepot()
	}
	share, err := c.h.shares.Begin(c.ctx(), c.ID)
	if err != nil {
		return nil, uploadProblem(err)
	}
	return &upload{c: c, Receiver: &files.Receiver{
		Depot: opt.Depot, ID: courier.ExecutionID(c.h.ids.New()), MaxFiles: opt.MaxFiles, MaxBytes: opt.MaxUpload, MaxFields: opt.MaxBody,
		MinRate: opt.MinRate, Patience: c.h.bodyTimeout, Share: share,
	}}, nil
}

// block is the least space that a file takes in a depot; the space is a multiple of it.
const block = 4 << 10

// inputsOf returns how many bytes the inputs of a principal's executions take in the depot. Only
// executions that have not ended count.
func (h *Handler) inputsOf(ctx context.Context, id string) (n int64, err error) {
	list, err := h.desk.Visitor(access.Principal{ID: id}).Unended(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, nil // a store without labels
	}
	for i := range list {
		files, err := h.opt.Depot.List(ctx, depot.InputKey(list[i], ""))
		if err != nil {
			return 0, err
		}
		for _, f := range files {
			n += (max(f.Size, 1) + block - 1) / block * block
		}
	}
	return n, err
}

func errNoDepot() error {
	return problemf(codeUnsupported, "this service keeps no files (Options.Depot): it takes no uploads, and has no results")
}

// read reads the body by one of the methods of the receiver.
func (u *upload) read(err error) error {
	_ = http.NewResponseController(u.c.w).SetWriteDeadline(time.Now().Add(time.Minute)) // the host's server began its time with the request
	if err == nil {
		u.c.whole = true
		return u.user()
	}
	u.c.cut = true
	return uploadProblem(err)
}

// uploadProblem returns the problem of an error of an upload.
func uploadProblem(err error) error {
	e, ok := errors.AsType[*files.Error](err)
	if !ok {
		return err
	}
	p := &problem{code: codeInvalid, Detail: e.Text}
	switch e.Kind {
	case files.TooLarge:
		p.code = codeTooLarge
	case files.UnsafeName:
		p.code = codeUnsafeName
	case files.Busy:
		p.code = codeUnavailable
	case files.Full:
		p.code = codeFull
	}
	if e.Pointer != "" {
		p.Detail = e.Pointer + ": " + e.Text
		p.add(item{Pointer: e.Pointer, Message: e.Text})
	}
	return p
}

// removeTimeout is the longest time for removing the files of an upload.
const removeTimeout = 30 * time.Second

// end removes the files, unless they belong to an execution.
func (u *upload) end() {
	defer func() { u.Share.End(u.kept) }()
	if u.kept {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.c.ctx()), removeTimeout)
	defer cancel()
	if err := u.Remove(ctx); err != nil {
		u.c.h.log.Error("the files of an upload that was given up are still in the depot; retention removes them after a day", "execution", u.ID, "error", err)
	}
}

// uploaded returns the files in the form of parameters.
func (u *upload) uploaded() []UploadedFile {
	list := make([]UploadedFile, len(u.Files))
	for i, f := range u.Files {
		_, name := depot.SplitKey(f.Key)
		list[i] = UploadedFile{name, f.Field, f.Size, f.SHA256}
	}
	return list
}

// user returns an error if the field user_id does not name the visitor.
func (u *upload) user() error {
	for _, f := range u.Fields {
		if f.Name == userField && f.Text != u.c.ID {
			return &access.Error{Text: "the field user_id names somebody else than who makes the request: leave it out"}
		}
	}
	return nil
}

// require returns a problem if there is no file, or if a required file is missing.
func (u *upload) require(names []string) error {
	if len(u.Files) == 0 {
		return problemf(codeMissingFile, `the body has no file: send each one as a part with a name and a file name, such as by curl -F "file=@invoices.csv"`)
	}
	var p problem
	for _, name := range names {
		if !slices.ContainsFunc(u.Files, func(f files.File) bool { return f.Key == depot.InputKey(u.ID, name) }) {
			p.add(item{Pointer: "/files", Message: fmt.Sprintf("the file %q is missing", name)})
		}
	}
	err := p.invalid("the files")
	if err != nil {
		p.code = codeMissingFile
	}
	return err
}

// startUpload starts an execution with the files of a form.
func (c *call) startUpload() error {
	key, err := c.key("")
	if err != nil {
		return err
	}
	wait, err := c.wait()
	if err != nil {
		return err
	}
	u, err := c.upload()
	if err != nil {
		return err
	}
	defer u.end()
	declared, err := c.takesFiles()
	if err != nil {
		return err
	}
	if err = u.read(u.Form(c.w, c.r)); err == nil {
		err = u.require(nil)
	}
	if err != nil {
		return err
	}
	opt := &courier.EnqueueOptions{IdempotencyKey: key, By: c.By(""), Labels: c.Labels()}
	if opt.Params, err = u.params(declared); err == nil {
		err = u.expires(declared, opt)
	}
	if err != nil {
		return err
	}
	if err := c.MayStart(c.ctx(), c.r.PathValue("name"), opt); err != nil {
		return err
	}
	x, err := u.enqueue(c.r.PathValue("name"), opt)
	if err != nil {
		return startProblem(err, key)
	}
	return c.started(x, wait)
}

// files receives the files of a request to an async endpoint.
func (e *endpoint) files(c *call) (u *upload, err error) {
	if u, err = c.upload(); err != nil {
		return nil, err
	}
	if c.isForm() {
		err = u.read(u.Form(c.w, c.r))
	} else if c.r.ContentLength != 0 {
		var name string
		if name, err = fileInHeader(c.r.Header); err == nil {
			err = u.read(u.Whole(c.w, c.r, name))
		}
	}
	if err == nil {
		err = u.require(e.opt.Require)
	}
	if err != nil {
		u.end()
	}
	return u, err
}

// fileInHeader returns the name that the headers of a request give its body.
func fileInHeader(h http.Header) (string, error) {
	text := h.Get("Content-Disposition")
	if text == "" {
		return "body", nil
	}
	_, params, err := mime.ParseMediaType(text)
	if name := params["filename"]; err == nil && name != "" {
		return name, nil
	}
	return "", oneProblem(item{Header: "Content-Disposition", Message: `it names no file: write attachment; filename="...", or leave it out`})
}

// formOf returns the fields of a form by their names as a body, and its encoding.
func formOf(fields []files.Field) (body any, encoding string, err error) {
	if len(fields) == 0 {
		return nil, "", nil
	}
	var p problem
	texts := make(map[string]any)
	for _, f := range fields {
		if _, seen := texts[f.Name]; seen {
			p.add(item{Pointer: shortPointer("/" + jsontext.EscapePointer(f.Name)), Message: "it is given more than once"})
		}
		if texts[f.Name] = f.Text; !jsontext.Storable(f.Text) {
			p.add(item{Pointer: shortPointer("/" + jsontext.EscapePointer(f.Name)), Message: "it " + noText + "; a file needs a file name"})
		}
	}
	return texts, "form", p.invalid("the form")
}

// takesFiles returns the parameters of the job of the call. One of them must be the parameter for
// files.
func (c *call) takesFiles() (*flow.Params, error) {
	job, err := c.h.e.Jobs().Get(c.ctx(), c.r.PathValue("name"), 0)
	if err != nil {
		return nil, c.unknown(err)
	}
	declared := flow.ReadParams(job.Params)
	if declared == nil {
		return nil, nil
	}
	if _, ok := declared.Get(filesParam); !ok {
		return nil, problemf(codeInvalid, `this job takes no files, and nothing was read: it has no parameter "files", which its definition must declare, such as "files": {"type": "list", "required": true}`)
	}
	return declared, nil
}

// params returns the parameters in the fields of the form, and the files. Fields get the types that
// the job declares.
func (u *upload) params(declared *flow.Params) (map[string]any, error) {
	var p problem
	params, seen := make(map[string]any), make(map[string]bool)
	for _, f := range u.Fields {
		pointer := shortPointer("/" + jsontext.EscapePointer(f.Name))
		switch {
		case seen[f.Name]:
			p.add(item{Pointer: pointer, Message: "it is given more than once"})
		case !jsontext.Storable(f.Text):
			p.add(item{Pointer: pointer, Message: "it " + noText + "; a file needs a file name"})
		case f.Name == filesParam:
			p.add(item{Pointer: pointer, Message: "this part has no file name, so it is not a file: send files with one"})
		case f.Name == userField, f.Name == paramsField, (f.Name == expiresField || f.Name == u.jobField) && !isDeclared(declared, f.Name):
		default:
			if v := fieldValue(declared, &f); v != nil {
				params[f.Name] = v
			}
		}
		seen[f.Name] = true
	}
	for _, f := range u.Fields {
		if f.Name != paramsField || !jsontext.Storable(f.Text) {
			continue
		}
		more, err := paramsIn(f.Text)
		if err != nil {
			p.add(item{Pointer: "/params", Message: err.Error()})
		}
		for name := range more {
			if _, given := params[name]; given || name == filesParam {
				p.add(item{Pointer: shortPointer("/params/" + jsontext.EscapePointer(name)), Message: "it is given by a part of its own: leave it out here"})
			}
		}
		maps.Copy(params, more)
	}
	params[filesParam] = u.uploaded()
	return params, p.invalid("the form")
}

// expires sets the time in which the execution must begin, if the form has a field for it.
func (u *upload) expires(declared *flow.Params, opt *courier.EnqueueOptions) error {
	for _, f := range u.Fields {
		if f.Name != expiresField || isDeclared(declared, expiresField) {
			continue
		}
		n, err := strconv.ParseFloat(f.Text, 64)
		if err != nil {
			n = -1
		}
		var p problem
		opt.Expires = p.seconds("/"+expiresField, n)
		return p.invalid("the form")
	}
	return nil
}

// isDeclared reports whether a job declares a parameter.
func isDeclared(declared *flow.Params, name string) bool {
	_, ok := declared.Get(name)
	return ok
}

// paramsIn returns the parameters in the part params.
func paramsIn(text string) (map[string]any, error) {
	if err := checkJSON([]byte(text)); err != nil {
		return nil, err
	}
	v, err := jsontext.Parse([]byte(text))
	params, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errors.New("it must be an object in JSON, with the parameters by their names")
	}
	return params, nil
}

// fieldValue returns the value of a field as a parameter. If the text has the form of the declared
// type, the value has that type; otherwise it is the text. It is nil if the field is empty.
func fieldValue(declared *flow.Params, f *files.Field) any {
	d, _ := declared.Get(f.Name)
	number := d.Type == "integer" || d.Type == "number"
	switch {
	case d.Type == "" || d.Type == "text":
		return f.Text
	case f.Text == "":
		return nil
	case number && json.Valid([]byte(f.Text)) && strings.Trim(f.Text, "-+.eE0123456789") == "":
		return json.Number(f.Text)
	case d.Type == "boolean" && (f.Text == "true" || f.Text == "false"):
		return f.Text == "true"
	case (d.Type == "list" || d.Type == "object" || d.Type == "file") && checkJSON([]byte(f.Text)) == nil:
		if v, err := jsontext.Parse([]byte(f.Text)); err == nil {
			return v
		}
	}
	return f.Text
}

// enqueue creates the execution whose inputs are the files. If another execution has the same
// idempotency key and the same files, it returns that execution.
func (u *upload) enqueue(job string, opt *courier.EnqueueOptions) (courier.Execution, error) {
	n, err := u.c.h.e.Prepare(u.c.ctx(), job, opt)
	if err != nil {
		return courier.Execution{}, err
	}
	n.ID = u.ID
	u.kept = true // unless it is certain that no execution was created
	// If the client goes away, it must still be certain whether the execution was created.
	got, err := u.c.h.e.EnqueueAll(context.WithoutCancel(u.c.ctx()), []store.NewExecution{n})
	if err != nil {
		u.kept = !errors.Is(err, courier.ErrConflict) && !errors.Is(err, courier.ErrInvalid) && !errors.Is(err, courier.ErrNotFound)
		return courier.Execution{}, err
	}
	if u.kept = got[0].ID == u.ID; u.kept {
		return got[0], nil
	}
	return got[0], u.sameAs(got[0].ID)
}

// sameAs returns a conflict if the inputs of an execution are other files. Parameters may lack the
// hashes.
func (u *upload) sameAs(id courier.ExecutionID) error {
	list, err := u.Depot.List(u.c.ctx(), depot.InputKey(id, ""))
	if err != nil {
		return err
	}
	if _, removed, err := depot.Removed(u.c.ctx(), u.Depot, id); err != nil || removed {
		return err
	}
	sums := make(map[string]string)
	for _, info := range list {
		_, name := depot.SplitKey(info.Key)
		sums[name] = info.SHA256
	}
	same := len(sums) == len(u.Files)
	for _, f := range u.uploaded() {
		same = same && sums[f.Name] == f.SHA256
	}
	if !same {
		return courier.Errorf(courier.ErrConflict, "the execution with this idempotency key has other files")
	}
	return nil
}
