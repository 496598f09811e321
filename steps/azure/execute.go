package azure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/note"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/stepcontext"
)

// Execute is the step type azure_function.execute.
type Execute struct {
	Options Options
}

// ExecuteConfig is the configuration of azure_function.execute.
type ExecuteConfig struct {
	ConnectionID    string          `json:"connection_id" courier:"required" doc:"the function app"`
	FunctionName    string          `json:"function_name" courier:"required,url" doc:"the function"`
	Trigger         string          `json:"trigger,omitempty" enum:"http,admin" doc:"http for an HTTP trigger, admin for any other trigger; by default http if the connection has a function key"`
	InputPayload    json.RawMessage `json:"input_payload,omitempty" doc:"the input, any value; the admin endpoint gets it as text"`
	WaitForCallback bool            `json:"wait_for_callback" default:"true" doc:"wait until the function has completed"`
	TimeoutSeconds  float64         `json:"timeout_seconds" default:"3600" min:"0.001" max:"2592000" doc:"longest wait for completion"`
	PollSeconds     float64         `json:"poll_seconds" default:"5" min:"0.1" max:"3600" doc:"time between checks for completion; at least 10 for telemetry"`
	TelemetryDelay  float64         `json:"telemetry_delay_seconds" default:"300" min:"0" max:"86400" doc:"how long a repetition searches telemetry for an earlier call before it calls again"`
	AllowFailure    bool            `json:"allow_failure,omitempty" doc:"complete the step even if the function fails; see function_success"`
	AllowAmbiguous  bool            `json:"allow_ambiguous,omitempty" doc:"take the first run if telemetry shows several that fit"`
	Once            bool            `json:"once,omitempty" doc:"call at most once: a repetition fails if an earlier attempt may have called"`
}

// ExecuteOutput is the output of azure_function.execute.
type ExecuteOutput struct {
	FunctionSuccess bool            `json:"function_success" doc:"whether the function succeeded, as far as the step waited"`
	CallbackResult  json.RawMessage `json:"callback_result,omitempty" doc:"what the function returned; unknown from telemetry"`
	HTTPStatus      int             `json:"http_status" doc:"status of the response to the call, or of the result in telemetry"`
	InstanceID      string          `json:"instance_id,omitempty" doc:"ID of a durable orchestration"`
	TraceID         string          `json:"trace_id" doc:"the operation id in telemetry"`
}

// A record is the note of an attempt.
type record struct {
	Run      int            `json:"run"`              // how many runs have failed before
	Called   time.Time      `json:"called,omitzero"`  // when the function was called, or was about to be
	Trace    string         `json:"trace,omitempty"`  // the id of the host's trace that the call belongs to; empty: it has one of its own
	Accepted bool           `json:"accepted"`         // the call was answered
	Status   string         `json:"status,omitempty"` // status URI, sealed
	Stop     string         `json:"stop,omitempty"`   // terminate URI, sealed
	Instance string         `json:"instance,omitempty"`
	Outcome  *ExecuteOutput `json:"outcome,omitempty"`
}

const noteName = "azure"

// A call is one execution of the step.
type call struct {
	job     *courier.Context
	cfg     *ExecuteConfig
	app     *app
	session *session
	record  record
	trace   string    // names the run, and is its trace id if the host has none
	until   time.Time // when waiting ends
	sealer  sealer
}

// functionName matches valid names of functions. The names are used in queries
// and URLs.
var functionName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,126}$`)

func (cfg *ExecuteConfig) check() error {
	if !functionName.MatchString(cfg.FunctionName) {
		return errf("function_name: must begin with a letter and have letters, digits, _ and - only")
	}
	return nil
}

// open prepares a call and reads the notes of earlier attempts.
func (s Execute) open(ctx context.Context, job *courier.Context, cfg *ExecuteConfig) (*call, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a, err := s.Options.app(ctx, job, cfg.ConnectionID)
	if err != nil {
		return nil, err
	}
	if cfg.Trigger == "" {
		cfg.Trigger = "admin"
		if a.functionKey != "" {
			cfg.Trigger = "http"
		}
	}
	key := a.functionKey
	if cfg.Trigger == "admin" {
		if key = a.masterKey; key == "" {
			return nil, errf("connection %q: the admin endpoint needs its master_key", a.id)
		}
		if cfg.WaitForCallback && !a.telemetry() {
			return nil, errf("connection %q: to wait for a run by the admin endpoint it needs app_id or workspace_id, and tokens; or set wait_for_callback to false", a.id)
		}
	}
	client, err := courier.Keep(ctx, job, "azure."+a.id, func(context.Context) (*safehttp.Client, error) {
		return safehttp.New(s.Options.HTTP.options(a.base, a.query)), nil
	})
	if err != nil {
		return nil, err
	}
	c := &call{job: job, cfg: cfg, app: a, sealer: newSealer(key)}
	c.session = &session{client: client, redact: job.Redact, beat: c.beat}
	if _, err := note.Read(stepcontext.Of(job), noteName, &c.record); err != nil {
		return nil, err
	}
	c.trace = traceID(job, c.record.Run)
	return c, nil
}

// beat reports progress.
func (c *call) beat() { c.job.Progress(0, -1, c.cfg.FunctionName) }

// save writes the record to the notes. Without a workspace it does nothing.
func (c *call) save() error {
	if c.job.Files().StepDir() == "" {
		return nil
	}
	return note.Write(stepcontext.Of(c.job), noteName, c.record)
}

// Execute calls the function and waits for its end. A repetition continues the
// call of an earlier attempt; see the package's documentation.
func (s Execute) Execute(ctx context.Context, job *courier.Context, cfg ExecuteConfig) (ExecuteOutput, error) {
	c, err := s.open(ctx, job, &cfg)
	if err != nil {
		return ExecuteOutput{}, ended(ctx, err)
	}
	c.until = time.Now().Add(time.Duration(cfg.TimeoutSeconds * float64(time.Second)))
	const margin = 5 * time.Second
	if d, ok := ctx.Deadline(); ok && d.Add(-margin).Before(c.until) {
		c.until = d.Add(-margin) // so that the error is ours, and says more
	}
	out, err := c.run(ctx)
	if err != nil {
		return ExecuteOutput{}, ended(ctx, err)
	}
	return out, nil
}

// ended returns the cause with which ctx ended, and otherwise err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// run continues the call from its current state to its end.
func (c *call) run(ctx context.Context) (ExecuteOutput, error) {
	if ctx.Err() != nil {
		return ExecuteOutput{}, context.Cause(ctx)
	}
	if c.record.Outcome != nil {
		return *c.record.Outcome, nil
	}
	if !c.record.Accepted {
		out, err := c.begin(ctx)
		if out != nil || err != nil {
			return c.finish(out, err)
		}
	}
	switch {
	case !c.cfg.WaitForCallback:
		return c.finish(&ExecuteOutput{FunctionSuccess: true, HTTPStatus: 202, InstanceID: c.record.Instance, TraceID: c.operation()}, nil)
	case c.record.Status != "":
		return c.finish(c.followDurable(ctx))
	case !c.app.telemetry():
		return ExecuteOutput{}, errf("function %q: an earlier attempt has called it, but how it ended can't be found out: the answer had no statusQueryGetUri, and the connection has no telemetry", c.cfg.FunctionName)
	}
	return c.finish(c.followTelemetry(ctx, c.until, nil))
}

// begin calls the function, unless an earlier attempt is known to have called
// it.
func (c *call) begin(ctx context.Context) (*ExecuteOutput, error) {
	if c.record.Called.IsZero() {
		return c.trigger(ctx)
	}
	if c.app.telemetry() {
		until := time.Now()
		if late := c.record.Called.Add(time.Duration(c.cfg.TelemetryDelay * float64(time.Second))); late.After(until) {
			until = late
		}
		c.job.Log().Info("an earlier attempt may have called the function; it is looked for in the telemetry", "trace", c.operation())
		out, err := c.followTelemetry(ctx, until, errNothing)
		// A durable function that was only started has to be started again, for
		// the status URI is lost.
		if lost := out != nil && c.cfg.Trigger == "http" && out.HTTPStatus == 202; err != errNothing && !lost {
			return out, err
		}
	}
	if c.cfg.Once {
		return nil, errf("function %q: an earlier attempt may have called it, and what became of that can't be found out; with once it is not called again; look for the operation %s, then run the job again or go on after this step", c.cfg.FunctionName, c.operation())
	}
	return c.trigger(ctx)
}

// finish notes the result down. A failed run has ended: the next attempt makes
// a new one.
func (c *call) finish(out *ExecuteOutput, err error) (ExecuteOutput, error) {
	switch {
	case err != nil:
		return ExecuteOutput{}, err
	case !out.FunctionSuccess && !c.cfg.AllowFailure:
		c.record = record{Run: c.record.Run + 1}
		if err := c.save(); err != nil {
			return ExecuteOutput{}, err
		}
		return ExecuteOutput{}, fmt.Errorf("function %q: it has failed%s (operation %s)", c.cfg.FunctionName, c.result(out), out.TraceID)
	}
	c.record.Outcome, c.record.Status, c.record.Stop = out, "", ""
	return *out, c.save()
}

// Validate checks the connection. The app must exist and prove its identity,
// and it must accept the master key if the step uses that. It must be possible
// to get a token and to query telemetry. No function is called.
func (s Execute) Validate(ctx context.Context, job *courier.Context, cfg ExecuteConfig) error {
	if job.Unresolved("connection_id") {
		return nil
	}
	for field, value := range map[string]*string{"function_name": &cfg.FunctionName, "trigger": &cfg.Trigger} {
		if job.Unresolved(field) {
			*value = map[string]string{"function_name": "unresolved"}[field]
		}
	}
	c, err := s.open(ctx, job, &cfg)
	if err != nil {
		return ended(ctx, err)
	}
	facts, err := c.session.client.Reach(ctx, c.app.base)
	if err != nil {
		return c.session.fault(ctx, err)
	}
	host, err := c.greet(ctx)
	if err != nil {
		return ended(ctx, err)
	}
	facts = append(facts, host...)
	if c.app.telemetry() {
		if _, err := c.query(ctx, "print 1"); err != nil {
			return ended(ctx, err)
		}
	}
	job.Log().With("connection", cfg.ConnectionID).Info("the connection works", append(facts, "telemetry", c.app.telemetry())...)
	return nil
}

// greet requests the status of the app, which requires the master key. It
// returns the response as pairs for a log. A function key could only be tested
// by a call.
func (c *call) greet(ctx context.Context) ([]any, error) {
	if c.cfg.Trigger != "admin" {
		return []any{"key", "not tested"}, nil
	}
	r, err := c.session.do(ctx, http.MethodGet, c.app.base.JoinPath("admin", "host", "status"), http.Header{"X-Functions-Key": {c.app.masterKey}}, nil)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, r.failure("the app does not tell its status")
	}
	var host struct{ State, Version string }
	if err := json.Unmarshal(r.body, &host); err != nil {
		return nil, errf("%s: the status of the app: %w", r.where, err)
	}
	return []any{"key", "accepted", "state", safename.Quote(host.State), "version", safename.Quote(host.Version)}, nil
}

// Rollback terminates a durable orchestration that is still running when the
// execution is cancelled. Otherwise it keeps the notes that a resume needs.
func (s Execute) Rollback(ctx context.Context, job *courier.Context, cfg ExecuteConfig) error {
	if !job.Cancelled() {
		return nil
	}
	var r record
	if found, err := note.Read(stepcontext.Of(job), noteName, &r); err != nil || !found || r.Stop == "" || r.Outcome != nil {
		return err
	}
	c, err := s.open(ctx, job, &cfg)
	if err != nil {
		return ended(ctx, err)
	}
	if err := c.terminate(ctx); err != nil {
		return ended(ctx, err)
	}
	return note.Remove(stepcontext.Of(job), noteName)
}
