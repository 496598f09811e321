package courier

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/courierhq/courier/internal/inside"
	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Step does one kind of work. C is its configuration and O its output; both
// are structs that encoding/json can handle, struct{} for none.
//
// The fields of C may carry the tags courier:"required", default:"..." and
// doc:"...". A default is the field's JSON text, or plain text for a string. The
// tags enum:"A,B", min:"0" and max:"10" restrict the values of a field, or of the
// items of a list, and courier:"one_of=NAME", "any_of=NAME" and "at_most_one=NAME"
// say how many of the fields with the same NAME are given; see [Schema]. Empty text
// in a field with enum means the default. The tags courier:"path" and courier:"url"
// mark a string, or a list of strings, into which no value may bring a segment "..",
// and the type [Pattern] one that may have wildcards. The tag alias:"NAME" is another
// name that definitions may use. Several words of the tag courier have commas between
// them: courier:"required,path".
//
// These tags are checked when a job is defined, as far as values are known then. An engine or a
// [StepType] checks them again on the rendered configuration before each call of Execute,
// Validate, Cleanup and Rollback; the error is a permanent [ConfigError] that names the field.
// So a step need not check what its tags say. Code that calls the methods of a Step directly
// must check the values itself.
//
// The fields of O, by their JSON names, become the values "<index>.<field>",
// in the same transaction that marks the step completed. Outputs that Execute returns together
// with an error are dropped, unless [TypeOptions].FailedOutputs is set. If a field is the path
// of a file that the step writes, or a list of such paths, give it the tag file:"FIELD", where
// FIELD is the field of C with the location; if that field is not given, the file is in the
// attempt's own directory. The definition of a job gets a warning if no later step uses such a
// file.
//
// A Step may also implement [Validator], [Cleaner] and [Rollbacker]. One Step
// value serves many executions at a time.
type Step[C, O any] interface {
	// Execute does the work. It must be safe to repeat: if an earlier attempt
	// stopped half-way, Execute must not produce duplicates; if it finished,
	// Execute must notice and do nothing, or overwrite with an equivalent
	// result. It must return soon after ctx is done.
	Execute(ctx context.Context, job *Context, cfg C) (O, error)
}

// A Validator checks a configuration without doing the work: for example, that
// connections, paths and keys exist. Fields that are known only at run time have their
// default values; see [Context.Unresolved].
type Validator[C any] interface {
	Validate(ctx context.Context, job *Context, cfg C) error
}

// A Cleaner removes what an earlier attempt of the step left behind. It runs
// before every attempt but the first, and on resume. For a step that does not implement
// it, the engine removes the directories of earlier attempts (see [Files.Dir]) and the
// files in the workspace that the failed attempt has reported by [Files.Wrote], unless
// an attempt has reported that it removed a file. The engine keeps the files of
// completed steps, and files that may be the only copies of their content.
type Cleaner[C any] interface {
	Cleanup(ctx context.Context, job *Context, cfg C) error
}

// A Rollbacker undoes, as far as possible, what the failed or interrupted step of an
// execution has done. If the execution has failed, it must keep what a resume needs;
// if [Context.Cancelled] is true, no resume follows. A step that does not implement
// it is rolled back by its Cleanup.
type Rollbacker[C any] interface {
	Rollback(ctx context.Context, job *Context, cfg C) error
}

// TypeOptions are the properties of a step type. The zero value is the default.
type TypeOptions struct {
	Timeout *time.Duration // of an attempt; nil means 5 minutes, 0 none
	// Stall is the longest time without a call to [Context.Progress]; nil or 0
	// means no such limit. Types that move bytes set it, and a Timeout of 0.
	Stall   *time.Duration
	Aliases []string // further keys
	// Replace makes the type replace the one that is registered under its key, under all
	// keys of that type. It is for tests.
	Replace bool
	// FailedOutputs records the outputs that Execute returns together with an error,
	// unless they are the zero value, with the failed attempt ([StepExecution].Outputs),
	// together with the values of [Context.Set]. They are for people who read the record:
	// no reference can name them. Outputs that contain a secret, or are larger than the
	// engine allows, are left out.
	FailedOutputs bool
	// Sets names the values that the step sets with [Context.Set] in addition to the
	// fields of its output, so that references to them pass the check of a job.
	Sets []string
	Doc  string // one sentence, for the generated documentation
	// RepeatDoc says what happens if the step is executed once more. CleanupDoc says
	// what Cleanup and Rollback remove and what they keep. Both are for the generated
	// documentation. A type with neither Cleanup nor Rollback has no CleanupDoc.
	RepeatDoc, CleanupDoc string
	// Maintainer does the maintenance of the type. A started engine calls it every
	// MaintainEvery; 0 or less means a minute. Nil means that the type has none. The type
	// must be registered before the engine starts.
	Maintainer    Maintainer
	MaintainEvery time.Duration
}

// A Maintainer does the maintenance of a step type: work that belongs to no execution, such
// as the removal of files that are no longer needed.
//
// An engine calls it when it starts, and then in each period of MaintainEvery until it
// stops. If several engines on a store have the step type, one of those that have claimed
// lately calls it in each period, in turn. If the store does not record workers, each
// engine calls it. Processes of isolated steps never call it.
type Maintainer interface {
	// Maintain does the work that is due. It returns soon after ctx ends. It must be safe
	// to repeat, and to be called by several engines at the same time. The engine logs an
	// error or panic once while it persists, and shows it in its Health. The next period
	// tries again.
	Maintain(ctx context.Context, m Maintenance) error
}

// A UsageReporter is a [Maintainer] that reports how full the storage that it maintains is, for
// the metrics of engines. The [Maintainer] of depot.keep is one.
type UsageReporter interface {
	// Usage returns how many bytes are used and how many may be used; a limit of 0 means no
	// limit. It must return soon, and may be called by several goroutines.
	Usage(ctx context.Context) (used, limit int64, err error)
}

// Maintenance is the part of an engine that a [Maintainer] may use.
type Maintenance struct {
	Log *slog.Logger // of the engine; never nil
	// Execution returns an execution of the engine's store. If there is none, the error
	// matches [ErrNotFound].
	Execution func(ctx context.Context, id ExecutionID) (Execution, error)
	// StoreID identifies the engine's store. It is unique, and stays the same as long as
	// the store's executions exist. Empty if the store has no id.
	StoreID string
}

// A FailedMaintenance is a [Maintainer] that fails at present.
type FailedMaintenance struct {
	StepType string    `json:"step_type"`
	Since    time.Time `json:"since"` // the first failure, by the clock of this process
	Error    string    `json:"error"` // of the last one
}

// defaultTimeout is the timeout of an attempt where neither the step nor its
// type says otherwise.
const defaultTimeout = 5 * time.Minute

// A Registry maps keys such as "sftp.download" to step types. The zero
// Registry is empty and ready to use. It may be used by several goroutines,
// and must not be copied after first use.
type Registry struct {
	mu    sync.RWMutex
	types map[string]*StepType // by key and alias
}

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+$`)

// Register adds s to r under key, which has the form "family.verb"; letter
// case does not count. The family "flow" is reserved for the markers of
// control flow. Register panics if key is malformed, reserved or taken, if a
// tag of C or O is malformed, or if C or O contains something that JSON can't
// represent or is not an object in JSON. A nil opt means the defaults.
func Register[C, O any](r *Registry, key string, s Step[C, O], opt *TypeOptions) {
	if opt == nil {
		opt = &TypeOptions{}
	}
	t := newStepType(strings.ToLower(key), s, *opt)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.types == nil {
		r.types = make(map[string]*StepType)
	}
	if former := r.types[t.key]; former != nil && t.opt.Replace {
		maps.DeleteFunc(r.types, func(k string, other *StepType) bool {
			if other == former && k != t.key {
				t.opt.Aliases = append(slices.Clip(t.opt.Aliases), k)
			}
			return other == former
		})
	}
	for _, k := range append([]string{t.key}, t.opt.Aliases...) {
		k = strings.ToLower(k)
		switch {
		case !keyForm.MatchString(k):
			panic(fmt.Sprintf("courier: register %q: a key has the form family.verb", k))
		case strings.HasPrefix(k, "flow."):
			panic(fmt.Sprintf("courier: register %q: the family flow is reserved", k))
		case r.types[k] != nil:
			panic(fmt.Sprintf("courier: register %q: the key is taken", k))
		}
		r.types[k] = t
	}
}

// RegisterFunc is [Register] for a plain function. Such a step has no Validate,
// Cleanup or Rollback.
func RegisterFunc[C, O any](r *Registry, key string, f func(context.Context, *Context, C) (O, error), opt *TypeOptions) {
	Register(r, key, funcStep[C, O](f), opt)
}

type funcStep[C, O any] func(context.Context, *Context, C) (O, error)

func (f funcStep[C, O]) Execute(ctx context.Context, job *Context, cfg C) (O, error) {
	return f(ctx, job, cfg)
}

// Lookup returns the step type registered under key, or under an alias.
func (r *Registry) Lookup(key string) (*StepType, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	t, ok := r.types[key]
	if !ok {
		t, ok = r.types[strings.ToLower(key)]
	}
	return t, ok
}

// Keys returns all keys and aliases in alphabetical order.
func (r *Registry) Keys() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sortedKeys(r.types)
}

// A StepType is a registered [Step] without its type parameters, so that code that is
// independent of C and O, such as an engine, can run it. Its methods may be called by
// several goroutines.
type StepType struct {
	key     string
	opt     TypeOptions
	config  *Schema
	output  *Schema
	execute func(ctx context.Context, job *Context, config []byte) (any, error)
	call    func(ctx context.Context, job *Context, config []byte, a action) error
	can     map[action]bool
	remote  func(ctx context.Context, job *Context, method string, config []byte) (json.RawMessage, error)
}

// An action is one of the optional abilities of a step.
type action int

const (
	actValidate action = iota
	actCleanup
	actRollback
	actDecode // decoding alone
)

// methods are the names of the methods that actions call.
var methods = map[action]string{actValidate: "Validate", actCleanup: "Cleanup", actRollback: "Rollback"}

func newStepType[C, O any](key string, s Step[C, O], opt TypeOptions) *StepType {
	for _, typ := range []reflect.Type{reflect.TypeFor[C](), reflect.TypeFor[O]()} {
		if bad := notJSON(typ, 0); bad != nil {
			panic(fmt.Sprintf("courier: register %q: %v contains a %v, which JSON can't hold", key, typ, bad))
		}
		if bad := malformedTag(typ, 0); bad != "" {
			panic(fmt.Sprintf("courier: register %q: %s", key, bad))
		}
		if form := schemaOf(typ, 0).Type; form != "" && form != "object" {
			panic(fmt.Sprintf("courier: register %q: %v is %s in JSON; a configuration and an output are objects, so use a struct", key, typ, strictjson.TypeNames[form]))
		}
		if bad := schemaOf(typ, 0).badGroup(); bad != "" {
			panic(fmt.Sprintf("courier: register %q: %v: %s", key, typ, bad))
		}
	}
	t := &StepType{
		key: key, opt: opt,
		config: schemaOf(reflect.TypeFor[C](), 0),
		output: schemaOf(reflect.TypeFor[O](), 0),
	}
	for _, p := range t.output.Properties {
		if _, ok := t.config.Property(p.File); p.File != "" && !ok {
			panic(fmt.Sprintf("courier: register %q: output %q: the tag file:%q names no field of the configuration", key, p.Name, p.File))
		}
	}
	for _, name := range opt.Sets {
		t.output.Properties = append(t.output.Properties, Property{Name: name, Schema: &Schema{}})
	}
	decode := configDecoder[C](key, t.config)
	validator, canValidate := s.(Validator[C])
	cleaner, canCleanup := s.(Cleaner[C])
	rollbacker, canRollback := s.(Rollbacker[C])
	t.can = map[action]bool{actValidate: canValidate, actCleanup: canCleanup, actRollback: canRollback}
	t.execute = func(ctx context.Context, job *Context, config []byte) (any, error) {
		cfg, err := decode(config, nil)
		if err != nil {
			return nil, err
		}
		out, err := s.Execute(ctx, job, cfg)
		return out, err
	}
	t.call = func(ctx context.Context, job *Context, config []byte, a action) error {
		cfg, err := decode(config, job)
		switch {
		case err != nil || a == actDecode:
			return err
		case a == actValidate:
			return validator.Validate(ctx, job, cfg)
		case a == actCleanup:
			return cleaner.Cleanup(ctx, job, cfg)
		}
		return rollbacker.Rollback(ctx, job, cfg)
	}
	return t
}

// configDecoder returns a function that decodes the JSON text of a configuration
// strictly, after setting the defaults, and compares it with the schema, since the
// values that references have put into it are in no definition. Fields that job, if
// not nil, calls unresolved may be missing. It panics if a default is malformed.
func configDecoder[C any](key string, s *Schema) func(config []byte, job *Context) (C, error) {
	var defaults C
	setDefaults(key, reflect.ValueOf(&defaults).Elem(), s)
	required, restricts := requiredFields(s), s.restricts()
	return func(config []byte, job *Context) (C, error) {
		cfg := defaults
		if len(config) > 0 {
			if err := jsontext.DecodeStrict(config, &cfg); err != nil {
				if named := s.checkRendered(config, job); named != nil {
					err = named // an UnmarshalText does not know for which field it is called
				}
				return cfg, &ConfigError{Err: strictjson.Plain(err)}
			}
		}
		v := reflect.ValueOf(&cfg).Elem()
		for _, p := range required {
			f, err := v.FieldByIndexErr(p.index)
			if (err != nil || isEmpty(f)) && (job == nil || !job.Unresolved(p.Name)) {
				return cfg, &ConfigError{Err: fmt.Errorf("%s: is required, but empty", p.Name)}
			}
		}
		if restricts {
			if err := s.checkRendered(config, job); err != nil {
				return cfg, &ConfigError{Err: err}
			}
			s.fillDefaults(v)
		}
		return cfg, nil
	}
}

// A ConfigError says that a step's configuration could not be decoded, or has a
// value that its type does not permit. It is permanent: the same configuration
// fails again.
type ConfigError struct{ Err error }

// Error begins with "config".
func (e *ConfigError) Error() string { return "config: " + e.Err.Error() }

// Unwrap returns what was wrong, marked as permanent.
func (e *ConfigError) Unwrap() error { return Permanent(e.Err) }

// Remote returns a copy of the type that runs the step elsewhere, such as in another
// process: Execute, Validate, Cleanup and Rollback call f with their name, such as
// "Execute", in place of the step. Config is the JSON text of the configuration, not
// decoded. Execute returns both results of f unchanged; the other methods return its
// error.
func (t *StepType) Remote(f func(ctx context.Context, job *Context, method string, config []byte) (json.RawMessage, error)) *StepType {
	r := *t
	r.remote = f
	return &r
}

// Key returns the key under which the type was registered, in lower case.
func (t *StepType) Key() string { return t.key }

// Doc returns the type's sentence of documentation.
func (t *StepType) Doc() string { return t.opt.Doc }

// RepeatDoc returns the text that says what happens if a step of the type is executed
// once more.
func (t *StepType) RepeatDoc() string { return t.opt.RepeatDoc }

// CleanupDoc returns the text that says what Cleanup and Rollback remove, and what they
// keep.
func (t *StepType) CleanupDoc() string { return t.opt.CleanupDoc }

// Maintainer returns the maintainer of the type, or nil if it has none, and how often it
// is called.
func (t *StepType) Maintainer() (m Maintainer, every time.Duration) {
	if every = t.opt.MaintainEvery; every <= 0 {
		every = time.Minute
	}
	return t.opt.Maintainer, every
}

// Timeout returns the default timeout of an attempt; 0 means none.
func (t *StepType) Timeout() time.Duration {
	if t.opt.Timeout == nil {
		return defaultTimeout
	}
	return *t.opt.Timeout
}

// Stall returns the default stall timeout of an attempt; 0 means none.
func (t *StepType) Stall() time.Duration {
	if t.opt.Stall == nil {
		return 0
	}
	return *t.opt.Stall
}

// Config returns the schema of the configuration C. The caller must not change it.
func (t *StepType) Config() *Schema { return t.config }

// Output returns the schema of the output O. The caller must not change it.
func (t *StepType) Output() *Schema { return t.output }

// WithoutAliases returns a configuration in which each field has its own name instead of
// its alias. A field that is given under both names is left as it is. The argument is not
// changed.
func (t *StepType) WithoutAliases(config map[string]any) map[string]any {
	return t.config.withoutAliases(config)
}

// Check returns what is wrong with a configuration, as far as that can be found without
// running anything. The values of config are JSON values. References are assumed to fit.
// If static is true, the configuration has no references and is also decoded.
func (t *StepType) Check(config map[string]any, static bool) []Problem {
	if config == nil {
		config = map[string]any{}
	}
	problems := t.config.Check("config", config)
	if len(problems) > 0 || !static {
		return problems
	}
	raw, err := json.Marshal(config)
	if err == nil {
		err = t.call(context.Background(), nil, raw, actDecode)
	}
	if err != nil {
		return []Problem{{Step: -1, Field: "config", Message: strings.TrimPrefix(err.Error(), "config: ")}}
	}
	return nil
}

// Execute decodes the JSON text of a configuration, runs the step, and returns
// the JSON object of its outputs: the fields of O and what the step set on job. With an
// error they are nil, unless the type has [TypeOptions].FailedOutputs.
func (t *StepType) Execute(ctx context.Context, job *Context, config []byte) (json.RawMessage, error) {
	ctx = inside.With(ctx, job.inside())
	if t.remote != nil {
		return t.remote(ctx, job, "Execute", config)
	}
	out, err := t.execute(ctx, job, config)
	if err == nil {
		return job.outputs(out)
	}
	if !t.opt.FailedOutputs || out == nil || reflect.ValueOf(out).IsZero() {
		return nil, err
	}
	outputs, bad := job.outputs(out)
	if bad != nil {
		return nil, err // which says what has happened
	}
	return outputs, err
}

// Validates reports whether the step implements [Validator].
func (t *StepType) Validates() bool { return t.can[actValidate] }

// Validate calls the step's Validate; without one it only decodes.
func (t *StepType) Validate(ctx context.Context, job *Context, config []byte) error {
	if !t.can[actValidate] && t.remote == nil {
		return t.call(ctx, job, config, actDecode)
	}
	return t.invoke(ctx, job, config, actValidate)
}

// CleansUp reports whether the step implements [Cleaner].
func (t *StepType) CleansUp() bool { return t.can[actCleanup] }

// Cleanup calls the step's Cleanup; without one it does nothing.
func (t *StepType) Cleanup(ctx context.Context, job *Context, config []byte) error {
	if !t.can[actCleanup] {
		return nil
	}
	return t.invoke(ctx, job, config, actCleanup)
}

// RollsBack reports whether the step implements [Rollbacker] or [Cleaner]: otherwise
// Rollback does nothing.
func (t *StepType) RollsBack() bool { return t.can[actRollback] || t.can[actCleanup] }

// Rollback calls the step's Rollback, or its Cleanup if it has none.
func (t *StepType) Rollback(ctx context.Context, job *Context, config []byte) error {
	if !t.can[actRollback] {
		return t.Cleanup(ctx, job, config)
	}
	return t.invoke(ctx, job, config, actRollback)
}

// invoke calls a method that returns an error alone.
func (t *StepType) invoke(ctx context.Context, job *Context, config []byte, a action) error {
	ctx = inside.With(ctx, job.inside())
	if a != actValidate && job != nil {
		job.setCleaning(true)
		defer job.setCleaning(false)
	}
	if t.remote == nil {
		return t.call(ctx, job, config, a)
	}
	_, err := t.remote(ctx, job, methods[a], config)
	return err
}
