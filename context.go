package courier

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/courierhq/courier/internal/errtext"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/redact"
	"github.com/courierhq/courier/internal/reference"
	"github.com/courierhq/courier/internal/strictjson"
)

// A ContextConfig holds what a Context shows a step of its execution. The zero
// value describes an execution without values whose steps may use any file,
// which suits unit tests.
type ContextConfig struct {
	Execution ExecutionID
	Job       string
	Version   int
	Step      int
	ID        string // the step's id, if it has one
	StepName  string // see [Context.StepName]; empty means the index
	Type      string
	Iteration []int // of the loops around the step, outermost first
	Attempt   int   // see [Context.Attempt]; 0 means 1
	// EarlierStarts is the number of times that the step was started before the loop
	// around it was started again; 0 if the loop was not. The step's files are named by
	// the next number.
	EarlierStarts int
	// ExecutionAttempt is the attempt of the execution, from 1; 0 means 1.
	ExecutionAttempt int
	// Trace is the trace context with which the execution was enqueued. Propagate returns the
	// trace context of one of the step's contexts, or "" if it has none; nil means none. See
	// [Context.Trace].
	Trace     string
	Propagate func(ctx context.Context) string

	// Workspace is the execution's directory, to which paths are relative. It
	// is created when it is first needed. Empty means no confinement: paths
	// are relative to the current directory.
	Workspace string
	Roots     []string // directories outside the workspace that steps may use

	// Monitor is the name of the monitor for which a [Lister] is called; empty in
	// steps.
	Monitor string

	Values Scope // nil means none
	// Secrets resolves a secret; nil means that there are none.
	Secrets func(ctx context.Context, r SecretRequest) (string, error)
	// Redactor receives the secrets that the step uses; nil means that the context
	// has its own.
	Redactor *Redactor
	// Resources holds what steps keep open for the execution; nil means that
	// the context has its own, closed by its Close.
	Resources  *Resources
	Log        *slog.Logger   // nil means none
	OnProgress func(Progress) // called in the step's goroutines; nil means none
	// Cursor is the cursor that an earlier attempt saved; see [Context.Cursor], which
	// also returns to the caller of NewContext what this attempt saves.
	Cursor json.RawMessage
	// OnFile is called in the step's goroutines before each operation of [Files] or of
	// a [PendingFile]; nil means no call. If it returns an error, the
	// operation fails with that error. Tests use it to interrupt or fail a step at each
	// place. The operations are "root" for a handle on a directory, "stat", "open",
	// "mkdir", "remove", "report", "create", "write", "sweep" for the removal of side
	// files, and "sync" and "rename" in Commit, Move and Replace; name is the name that
	// the step gave.
	OnFile     func(operation, name string) error
	Repeated   bool     // see [Context.Repeated]; an Attempt above 1 implies it
	Unresolved []string // config fields without a value in a dry run
	MaxValue   int      // bytes of one value of Set, as JSON; 0 means no limit
	// DryRun refuses all file operations that write, and does not create the
	// workspace: a missing workspace counts as empty.
	DryRun    bool
	Cancelled bool // see [Context.Cancelled]
}

// A Context gives a running step access to its execution. It is not a [context.Context]: a step
// receives that, and with it cancellation, as a separate parameter. It may be used by several
// goroutines.
//
//   - Which step it is: [Context.Execution], [Context.Job], [Context.Step], [Context.StepName],
//     [Context.ID], [Context.Type], [Context.Iteration], [Context.Attempt],
//     [Context.ExecutionAttempt], [Context.Repeated] and [Context.Trace].
//   - Files: [Context.Files].
//   - Values: [Get] and [TryGet] read those of earlier steps; [Context.Set] adds one.
//   - Secrets: [Context.Secret], [Context.AddSecret] and [Context.Redact].
//   - What people see: [Context.Log], [Context.Progress], [Context.SetProgress],
//     [Context.Stage] and [Context.Emit].
//   - For the next attempt: [Context.SaveCursor] and [Context.Cursor].
//   - Connections: [Keep] and [Context.Drop].
//   - In Validate: [Context.DryRun] and [Context.Unresolved]. In Rollback: [Context.Cancelled].
//
// [NewContext], [Context.Reports] and [Context.Close] are for the caller of a step, such as a
// test.
//
// The zero Context is ready to use, which suits unit tests; see
// [ContextConfig].
type Context struct {
	cfg ContextConfig

	mu       sync.Mutex
	closed   bool
	usedWork bool
	// remoteReports counts those of files on servers.
	remoteReports int32
	set           map[string]json.RawMessage
	events        []StepEvent
	files         []File
	fileAt        map[string]fileReport // by path
	reported      *reported             // nil until the step reports something
	roots         map[string]*os.Root
	swept         map[string]bool // directories without side files of earlier attempts
	own           *Resources
	redactor      Redactor // if there is none in cfg

	// What Move and Remove know; see effects.go.
	effects  map[string]int // how many were begun, by kind and path
	removals map[string]*effect[removedFile]
	moved    map[string]bool        // paths to which this attempt has moved files
	arrivals map[string][]movedFile // what earlier attempts have noted, by target; nil until it is read
	cleaning bool                   // Cleanup or Rollback is running

	// Of a step that is called in another process; see inside.Forward.
	forward func(contextReport) error
	clean   func(text string) string
}

// NewContext returns a context for one attempt of a step. The caller must
// close it when the attempt is over.
func NewContext(cfg ContextConfig) *Context {
	if cfg.Workspace != "" {
		cfg.Workspace = filepath.Clean(cfg.Workspace)
	}
	return &Context{cfg: cfg}
}

// Execution returns the id of the execution.
func (c *Context) Execution() ExecutionID { return c.cfg.Execution }

// Job returns the name of the job.
func (c *Context) Job() string { return c.cfg.Job }

// Step returns the step's index in the flat list.
func (c *Context) Step() int { return c.cfg.Step }

// StepName returns a name of the step for use in file names and keys. It is the index of
// the step in the version of the job with which the execution began. If an operator
// switches the execution to another version, the step keeps its name, whatever its index
// there. A step that is new in that version gets a name that no other step has.
func (c *Context) StepName() string {
	if c.cfg.StepName == "" {
		return strconv.Itoa(c.cfg.Step)
	}
	return c.cfg.StepName
}

// ID returns the step's id, or "" if it has none.
func (c *Context) ID() string { return c.cfg.ID }

// Type returns the key of the step's type.
func (c *Context) Type() string { return c.cfg.Type }

// Iteration returns the iteration of each loop around the step, outermost
// first, or nil outside loops. The caller must not change the slice.
func (c *Context) Iteration() []int { return c.cfg.Iteration }

// Attempt returns the number of this start of the step in this iteration, from 1.
// Events, records, the audit and the log show the same number. If the loop is
// started again, it begins at 1 again. [Context.Repeated] reports whether the step
// was started before.
func (c *Context) Attempt() int { return max(1, c.cfg.Attempt) }

// ExecutionAttempt returns the number of the execution's attempt, from 1. The
// policy retry_job starts the job again with the next number.
func (c *Context) ExecutionAttempt() int { return max(1, c.cfg.ExecutionAttempt) }

// Repeated reports whether the step was started before in this iteration: in an
// earlier attempt, before the loop or the job was started again, or in the same
// attempt on a worker that handed it over. If Repeated is true and the step finds
// its work done, the step may have done it itself. In Rollback it is always true.
func (c *Context) Repeated() bool { return c.cfg.Repeated || c.Attempt() > 1 }

// Trace returns the trace context that a step passes to the services that it calls, in the
// form of the header traceparent of W3C Trace Context. It is that of ctx if the host traces
// steps (Trace of package engine's Options), and otherwise the one with which the execution
// was enqueued. Empty means none.
func (c *Context) Trace(ctx context.Context) string {
	if c.cfg.Propagate != nil {
		if trace := c.cfg.Propagate(ctx); trace != "" {
			return trace
		}
	}
	return c.cfg.Trace
}

// Cancelled reports, in Rollback, whether the execution is being cancelled. If so,
// no resume follows, and nothing has to be kept for one.
func (c *Context) Cancelled() bool { return c.cfg.Cancelled }

// Unresolved reports, in Validate, whether the value of a configuration field is
// known only at run time. A field of an object is named with dots, such as
// "auth.user".
func (c *Context) Unresolved(field string) bool { return slices.Contains(c.cfg.Unresolved, field) }

// DryRun reports, in Validate, whether this is a dry run, in which nothing may
// be written anywhere.
func (c *Context) DryRun() bool { return c.cfg.DryRun }

// Log returns the step's log, which is never nil. Its records have the execution
// and the step as attributes.
func (c *Context) Log() *slog.Logger {
	if c.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.cfg.Log
}

// Secret returns the secret called name. Use it for secrets that the configuration
// does not contain; a configuration refers to a secret as "secret:NAME". From then
// on Redact removes the secret.
func (c *Context) Secret(ctx context.Context, name string) (string, error) {
	if c.cfg.Secrets == nil {
		return "", fmt.Errorf("secret %q: no secrets are configured; set engine.Options.Secrets", name)
	}
	v, err := c.cfg.Secrets(ctx, SecretRequest{
		Name: name, Execution: c.cfg.Execution, Job: c.cfg.Job, Version: c.cfg.Version,
		Step: c.cfg.Step, ID: c.cfg.ID, Type: c.cfg.Type, Monitor: c.cfg.Monitor, DryRun: c.cfg.DryRun,
	})
	if err != nil {
		return "", err
	}
	c.AddSecret(name, v)
	return v, nil
}

// AddSecret has Redact remove a secret that does not come from Secret: a password that a
// connection holds itself, or a token that a server has issued. Its name is shown in its
// place. An output that contains it fails the step, as with other secrets; see
// [Redactor.Find]. It is not stored: when a worker continues the execution later, a step
// must add it again.
func (c *Context) AddSecret(name, value string) {
	c.redact().Add(name, value)
	_ = c.tell(contextReport{Secret: name, Value: []byte(value)})
}

// Redact returns text without the secrets that the execution has used, in any encoded
// form; see [Redactor]. The errors, log records, progress and other reports of a step
// are always redacted. Call Redact for outputs, and before shortening a text, unless
// three dots replace the rest.
func (c *Context) Redact(text string) string {
	text = c.redact().Redact(text)
	if c.clean != nil {
		text = c.clean(text)
	}
	return text
}

func (c *Context) redact() *Redactor {
	if c.cfg.Redactor != nil {
		return c.cfg.Redactor
	}
	return &c.redactor
}

// A Redactor replaces secrets in text by "[secret NAME]". It finds a secret as it is, and
// in the forms into which programs convert it: in base64, also as part of a longer text
// such as "user:secret"; in hexadecimal; in UTF-16 of either byte order, and in base64
// and hexadecimal of that; with the escapes of URLs, forms, JSON, HTML, Go and C, also
// applied repeatedly; and shortened by three dots, with at least four bytes left. If the
// secret is a URL, it also finds the password, the path, the query and the values of the
// query. If the secret has several lines, it also finds each long line.
//
// Secrets shorter than four bytes are not searched for, because they occur by chance.
// The zero Redactor has no secrets and is fast. It may be used by several goroutines.
type Redactor struct{ found redact.Redactor }

// Add adds a secret. Its name is shown in its place.
func (r *Redactor) Add(name, value string) { r.found.Add(name, value) }

// Empty reports whether there are no secrets.
func (r *Redactor) Empty() bool { return r.found.Empty() }

// Redact returns text without secrets.
func (r *Redactor) Redact(text string) string { return r.found.Redact(text) }

// Find returns the name of a secret in text, which may be JSON; empty if there is
// none. Unlike Redact it ignores text that may occur by chance: the beginning of a
// secret, a short path of a URL, and the encoded forms of secrets shorter than six bytes.
func (r *Redactor) Find(text string) (name string) { return r.found.Find(text) }

// A SecretRequest asks the host application for a secret, and says what the secret is
// for. A job can name any secret in its definition. If you don't trust everybody who
// writes jobs, decide here which job gets which secret. Fields that don't apply are
// empty.
type SecretRequest struct {
	Name string // as in the definition or the connection, without "secret:"

	Execution ExecutionID // in a dry run of a job an id that no execution has; empty for monitors and subscriptions
	Job       string
	Version   int    // of the job's definition; 0 in a dry run of one that was not saved
	Step      int    // index in the flat list; 0 if there is no job, -1 if an execution is about to be created
	ID        string // the step's id, if it has one
	Type      string // key of the step's type, such as "sftp.upload"
	DryRun    bool   // of a job, or of a resume: the secret is not used

	// Param is the parameter whose value names the secret, if any. If Step is -1, an
	// execution is about to be created or resumed with it. The error then says whether the
	// secret may be used; a returned secret is dropped. By is the actor who creates or
	// resumes the execution; it is empty in a step.
	Param string
	By    string

	Monitor      string // whose lister needs the secret; there is no job then
	Subscription string // whose webhook needs the secret; there is no job then
}

// A SecretUse says which secret an execution has used, and for which step or parameter.
// It has the fields of the granted [SecretRequest] that the execution does not have.
type SecretUse struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty"` // of the job's definition
	Step    int    `json:"step"`
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	// Refused says that a later worker was refused the secret for good. Since then it is
	// no longer redacted in what earlier steps have written.
	Refused bool `json:"refused,omitempty"`
}

// Set adds the value "<index>.<name>" when the step completes. References can't use
// it before that. It replaces a field of the same name in the step's output. If the
// value is larger than the engine allows, Set returns a permanent error.
func (c *Context) Set(name string, v any) error {
	if n, rest := reference.CutName(name); n == "" || rest != "" {
		return fmt.Errorf("set %q: a name must not contain dots, brackets, quotes or spaces", errtext.Shorten(name, 60))
	}
	raw, err := jsontext.Append(nil, v)
	if err != nil {
		return fmt.Errorf("set %q: %w", name, err)
	}
	if most := c.cfg.MaxValue; most > 0 && len(raw) > most {
		return Permanent(fmt.Errorf("set %q: the value has %d bytes, more than the %d of engine.Options.MaxValue; put it into a file and set its path, or raise the limit", name, len(raw), most))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil {
		c.set = make(map[string]json.RawMessage)
	}
	c.set[name] = raw
	return nil
}

// A Scope gives values to references. Values are JSON values: nil, bool,
// string, [json.Number], []any and map[string]any.
type Scope interface {
	// Value returns the value called head.name, such as "2.file_list".
	Value(head, name string) (v any, ok bool)
	// Keys returns the keys of all values, for the message about a missing one.
	Keys() []string
}

// Values is the simplest [Scope]: a map from "head.name" to JSON values.
type Values map[string]any

// Value returns the entry head.name.
func (v Values) Value(head, name string) (any, bool) {
	x, ok := v[head+"."+name]
	return x, ok
}

// Keys returns the keys in order.
func (v Values) Keys() []string {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Get returns the value that key refers to, such as "0.file_list" or
// "loop.current_item.name", decoded into T without loss. A key has a head (the index
// or id of a step, or "loop", "job", "params"), a dot and a name, and then a path into
// the value: any of ".name", "[2]", ".2" and `["a.b"]`. If there is no such value, the
// error matches [ErrNotFound]. Values that the step itself has set are not visible to
// it.
func Get[T any](c *Context, key string) (T, error) {
	var v T
	ref, err := reference.Parse(key)
	if err != nil {
		return v, err
	}
	x, err := ref.Resolve(c.scope())
	if err != nil {
		return v, err
	}
	raw, err := jsontext.AppendAny(nil, x)
	if err == nil {
		err = strictjson.Plain(strictjson.NewDecoder(raw).Decode(&v))
	}
	if err != nil {
		return v, fmt.Errorf("value %q: %w", key, err)
	}
	return v, nil
}

// TryGet is [Get] for a value that may be missing or of another type. An output that
// its step left out is null. Null is a value if T can hold it: a pointer, an
// interface, a slice, a map, or a type that decodes itself from JSON. For any other
// T, null counts as missing.
func TryGet[T any](c *Context, key string) (T, bool) {
	raw, err := Get[json.RawMessage](c, key)
	if err != nil || string(raw) == "null" && !holdsNull[T]() {
		var none T
		return none, false
	}
	v, err := Get[T](c, key)
	return v, err == nil
}

// holdsNull reports whether null is decoded into a T as something that can be
// told from its zero value, or is it.
func holdsNull[T any]() bool {
	if _, ok := any(new(T)).(json.Unmarshaler); ok {
		return true
	}
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return true
	}
	return false
}

func (c *Context) scope() Scope {
	if c.cfg.Values == nil {
		return Values(nil)
	}
	return c.cfg.Values
}

// outputs merges what the step returned with what it set.
func (c *Context) outputs(out any) (json.RawMessage, error) {
	raw, err := jsontext.Append(nil, out)
	if err != nil {
		return nil, Permanent(fmt.Errorf("the work is done, but its output can't be stored: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if string(raw) == "null" || string(raw) == "{}" {
		raw = nil
	}
	if raw != nil && raw[0] != '{' {
		return nil, Permanent(fmt.Errorf("output: must be an object in JSON, not %s", errtext.Shorten(string(raw), 40)))
	}
	if len(c.set) == 0 {
		return raw, nil
	}
	all := make(map[string]json.RawMessage)
	if raw != nil {
		if err := json.Unmarshal(raw, &all); err != nil {
			return nil, err
		}
	}
	maps.Copy(all, c.set)
	return json.Marshal(all)
}

// Close ends the attempt. The context's directory handles can no longer be used.
// Resources are closed if they belong to the context and not to an engine.
func (c *Context) Close() error {
	c.mu.Lock()
	roots, own := c.roots, c.own
	c.closed, c.roots = true, nil
	c.mu.Unlock()
	var errs []error
	for _, r := range roots {
		errs = append(errs, r.Close())
	}
	if own != nil {
		errs = append(errs, own.Close())
	}
	return errors.Join(errs...)
}
