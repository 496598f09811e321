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

// A ContextConfig has what a step can see of its execution. The zero value is an
// execution without values that may use any file; use it in unit tests.
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
	// EarlierStarts is the highest number of a start before the loop around the
	// step was started again; 0 if it was not. The next start has the number
	// after it in the names of the step's files.
	EarlierStarts int
	// ExecutionAttempt is the attempt of the execution, from 1; 0 means 1.
	ExecutionAttempt int
	// Trace is the trace context of who enqueued the execution, and Propagate returns that of
	// a context that the step has, empty if it has none; nil means none. See [Context.Trace].
	Trace     string
	Propagate func(ctx context.Context) string

	// Workspace is the execution's directory, from which relative paths are
	// taken. It is created when it is first needed. Empty means that nothing
	// is confined: relative paths start in the current directory.
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
	// Cursor is what an earlier attempt has saved; see [Context.Cursor]. Who made the
	// context reads there what this attempt saves.
	Cursor json.RawMessage
	// OnFile is called in the step's goroutines before each operation of [Files] or of
	// a [PendingFile]; nil means no call. If it returns an error, the
	// operation fails with that error. It is for tests that interrupt or fail a step
	// at each place. The operations are "root" for a handle on a directory, "stat",
	// "open", "mkdir", "remove", "report", "create", "write", "sweep" for the removal
	// of side files, and "sync" and "rename" in Commit, Move and Replace; name is the name
	// that the step gave.
	OnFile     func(operation, name string) error
	Repeated   bool     // see [Context.Repeated]; an Attempt above 1 implies it
	Unresolved []string // config fields without a value in a dry run
	MaxValue   int      // bytes of one value of Set, as JSON; 0 means no limit
	// DryRun refuses all operations on files that would write, and makes no
	// workspace: it is taken to be empty if it isn't there.
	DryRun    bool
	Cancelled bool // see [Context.Cancelled]
}

// A Context is what a running step sees of its execution. It is not a [context.Context];
// cancellation reaches a step separately. It may be used by several goroutines.
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

// NewContext returns a context. The caller closes it when the attempt is over.
func NewContext(cfg ContextConfig) *Context {
	if cfg.Workspace != "" {
		cfg.Workspace = filepath.Clean(cfg.Workspace)
	}
	return &Context{cfg: cfg}
}

// Execution is the id of the execution.
func (c *Context) Execution() ExecutionID { return c.cfg.Execution }

// Job is the name of the job.
func (c *Context) Job() string { return c.cfg.Job }

// Step is the step's index in the flat list.
func (c *Context) Step() int { return c.cfg.Step }

// StepName names the step in the names of files and in keys. It is the index of the step
// in the version of the job with which the execution began. If an operator has the
// execution go on with another version, the step keeps its name there, whatever its
// index is. A step that this version has added gets a name that no other step has.
func (c *Context) StepName() string {
	if c.cfg.StepName == "" {
		return strconv.Itoa(c.cfg.Step)
	}
	return c.cfg.StepName
}

// ID is the step's id; empty if it has none.
func (c *Context) ID() string { return c.cfg.ID }

// Type is the key of the step's type.
func (c *Context) Type() string { return c.cfg.Type }

// Iteration is the iteration of each loop around the step, outermost first;
// nil outside loops. The caller must not change it.
func (c *Context) Iteration() []int { return c.cfg.Iteration }

// Attempt counts the starts of the step in this iteration, from 1. Events, records,
// the audit and the log show the same number. If a loop is started again, it begins
// at 1. [Context.Repeated] reports whether the step was started before.
func (c *Context) Attempt() int { return max(1, c.cfg.Attempt) }

// ExecutionAttempt is the attempt of the execution, from 1: the policy retry_job
// begins the job again with the next one.
func (c *Context) ExecutionAttempt() int { return max(1, c.cfg.ExecutionAttempt) }

// Repeated reports that the step was started before in this iteration: by an earlier
// attempt, before the loop or the job was started again, or in the same attempt on a
// worker that handed it over. If the step then finds that its work is done, it may
// have done that itself. In Rollback it is true.
func (c *Context) Repeated() bool { return c.cfg.Repeated || c.Attempt() > 1 }

// Trace is the trace context that a step sends along to what it calls, as in the header
// traceparent of W3C Trace Context: that of ctx, if the host traces steps (Trace of package
// engine's Options), and otherwise that of who enqueued the execution. Empty means none.
func (c *Context) Trace(ctx context.Context) string {
	if c.cfg.Propagate != nil {
		if trace := c.cfg.Propagate(ctx); trace != "" {
			return trace
		}
	}
	return c.cfg.Trace
}

// Cancelled reports, in Rollback, that the execution is being cancelled. No resume
// follows, so nothing has to be kept for one.
func (c *Context) Cancelled() bool { return c.cfg.Cancelled }

// Unresolved reports, in Validate, that a field of the configuration is known only at
// run time. Fields of objects are named with dots.
func (c *Context) Unresolved(field string) bool { return slices.Contains(c.cfg.Unresolved, field) }

// DryRun reports, in Validate, that this is a dry run, in which nothing may be
// written anywhere.
func (c *Context) DryRun() bool { return c.cfg.DryRun }

// Log is the step's log. Its records have the execution and the step as attributes.
func (c *Context) Log() *slog.Logger {
	if c.cfg.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.cfg.Log
}

// Secret returns the secret called name. Use it for secrets that are not in the
// configuration, where "secret:NAME" stands for one. Redact removes the secret from
// now on.
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

// AddSecret makes a secret known to Redact that does not come from Secret: a password
// that a connection holds itself, or a token that a server has issued. Its name is
// shown in its place. An output that contains it fails the step, as with other
// secrets; see [Redactor.Find]. When another worker, or the same one later, goes on with
// the execution, it is unknown until a step adds it again.
func (c *Context) AddSecret(name, value string) {
	c.redact().Add(name, value)
	_ = c.tell(contextReport{Secret: name, Value: []byte(value)})
}

// Redact returns text without the secrets that the execution has used, in any encoded
// form; see [Redactor]. Errors, log records, progress and all other reports of a step
// are redacted in any case. Call Redact for outputs, and before you shorten a text
// without writing three dots for the rest.
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

// A Redactor replaces secrets in text by "[secret NAME]". It finds a secret as it is,
// and in the forms into which programs convert it: base64, also as a part of a longer
// text such as "user:secret"; hexadecimal; in UTF-16 of either byte order, and in base64
// and hexadecimal of that; with the escapes of URLs, forms, JSON,
// HTML, Go and C, repeated ones included; and shortened by three dots, with at least
// four bytes left. If the secret is a URL, it also finds the password, the path, the
// query and its values; if it has several lines, each long line.
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
// none. Unlike Redact it ignores texts that may be there by chance: the beginning of
// a secret, the path of a URL that is short, and the encoded forms of secrets shorter
// than six bytes.
func (r *Redactor) Find(text string) (name string) { return r.found.Find(text) }

// A SecretRequest asks the host application for a secret, and says what the secret is
// for. A job can name any secret in its definition. If others write jobs, decide here
// which job gets which secret. Fields that don't apply are empty.
type SecretRequest struct {
	Name string // as the definition or the connection has it, without "secret:"

	Execution ExecutionID // that of none in a dry run of a job; empty for monitors and subscriptions
	Job       string
	Version   int    // of the job's definition; 0 in a dry run of one that was not saved
	Step      int    // index in the flat list; 0 where there is no job, -1 if an execution is about to be created
	ID        string // the step's id, if it has one
	Type      string // key of the step's type, such as "sftp.upload"
	DryRun    bool   // of a job, or of a resume: nothing is done with it

	// Param is the parameter whose value names the secret, if one does. With a Step of -1
	// an execution is about to be created or resumed with it. The answer then says whether
	// it may be used; a secret that is returned is dropped. By is who does that, and empty
	// in a step.
	Param string
	By    string

	Monitor      string // whose lister asks; it is for no job then
	Subscription string // whose webhook asks; it is for no job then
}

// A SecretUse says which secret an execution has used, and what for: what the
// [SecretRequest] said that it was allowed with, and the execution does not say.
type SecretUse struct {
	Name    string `json:"name"`
	Version int    `json:"version,omitempty"` // of the job's definition
	Step    int    `json:"step"`
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"`
	Param   string `json:"param,omitempty"`
	// Refused says that a later worker was refused the secret for good. What steps have
	// written of it before is shown as it is since then.
	Refused bool `json:"refused,omitempty"`
}

// Set adds the value "<index>.<name>" when the step completes; before that, no
// reference can use it. It replaces a field of the same name in the step's output. If
// the value is larger than the engine allows, the error is permanent.
func (c *Context) Set(name string, v any) error {
	if n, rest := reference.CutName(name); n == "" || rest != "" {
		return fmt.Errorf("set %q: a name has no dots, brackets, quotes or spaces", errtext.Shorten(name, 60))
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
	// Keys returns what there is, for messages about what there is not.
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
// the value: any of ".name", "[2]", ".2" and `["a.b"]`. The error of a value
// that isn't there matches [ErrNotFound]. What the step itself has set is not
// among the values.
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

// Close ends the attempt: directory handles of the context can't be used any more,
// and resources are closed if the context has its own and not those of an engine.
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
