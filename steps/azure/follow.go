package azure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// errNothing says that telemetry shows no run.
var errNothing = errors.New("telemetry shows no run")

// giveUp returns the error of a run whose end was not seen in time. The run may
// have completed or may still be in progress, so it is not called again
// automatically.
func (c *call) giveUp(last error) error {
	text := fmt.Sprintf("function %q: its end was not seen in timeout_seconds, or in the step's time; it may still run; a resume goes on waiting (operation %s)", c.cfg.FunctionName, c.operation())
	if last != nil {
		text += "; the last answer: " + last.Error()
	}
	return errf("%s", text)
}

// sleep waits for d, but not beyond until, and reports whether time is left.
func (c *call) sleep(ctx context.Context, d time.Duration, until time.Time) (bool, error) {
	left := time.Until(until)
	if left <= 0 {
		return false, nil
	}
	c.beat()
	t := time.NewTimer(min(d, left))
	defer t.Stop()
	for {
		tick := time.NewTimer(time.Minute)
		select {
		case <-ctx.Done():
			tick.Stop()
			return false, context.Cause(ctx)
		case <-t.C:
			tick.Stop()
			c.beat()
			return true, nil
		case <-tick.C:
			c.beat()
		}
	}
}

// followDurable polls the state of an orchestration until it has ended.
func (c *call) followDurable(ctx context.Context) (*ExecuteOutput, error) {
	u, err := c.sealer.open(c.record.Status)
	if err != nil {
		return nil, err
	}
	if code := u.Query().Get("code"); code != "" {
		c.job.AddSecret("code", code)
	}
	interval := time.Duration(c.cfg.PollSeconds * float64(time.Second))
	for {
		r, err := c.session.do(ctx, http.MethodGet, u, http.Header{"Accept": {"application/json"}}, nil)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		wait, last := interval, err
		if err == nil {
			out, err := c.state(r)
			if out != nil || err != nil && !r.passing() {
				return out, err
			}
			wait, last = r.after(interval), err
		}
		more, err := c.sleep(ctx, wait, c.until)
		if err != nil {
			return nil, err
		}
		if !more {
			return nil, c.giveUp(last)
		}
	}
}

// state parses the state of an orchestration; the output is nil if it has not
// ended.
func (c *call) state(r *response) (*ExecuteOutput, error) {
	if r.status != http.StatusOK && r.status != http.StatusAccepted && r.status != http.StatusInternalServerError {
		return nil, r.failure("the state of the function's run")
	}
	var s struct {
		Instance string          `json:"instanceId"`
		Status   string          `json:"runtimeStatus"`
		Output   json.RawMessage `json:"output"`
	}
	if err := json.Unmarshal(r.body, &s); err != nil {
		if r.status == http.StatusAccepted {
			return nil, nil
		}
		return nil, r.failure("the state of the function's run is not JSON")
	}
	if string(s.Output) == "null" {
		s.Output = nil
	}
	if s.Output != nil {
		s.Output = json.RawMessage(c.session.redact(string(s.Output)))
	}
	out := &ExecuteOutput{CallbackResult: s.Output, HTTPStatus: http.StatusOK, InstanceID: c.record.Instance, TraceID: c.operation()}
	switch s.Status {
	case "Completed":
		out.FunctionSuccess = true
		return out, nil
	case "Failed", "Terminated", "Canceled":
		if out.CallbackResult == nil {
			out.CallbackResult = value([]byte(s.Status))
		}
		return out, nil
	case "Pending", "Running", "Suspended", "ContinuedAsNew":
		return nil, nil
	}
	return nil, r.failure("the state of the function's run is unknown")
}

// terminate ends an orchestration.
func (c *call) terminate(ctx context.Context) error {
	u, err := c.sealer.open(c.record.Stop)
	if err != nil {
		return err
	}
	u.RawQuery = strings.ReplaceAll(u.RawQuery, "{text}", "cancelled")
	if code := u.Query().Get("code"); code != "" {
		c.job.AddSecret("code", code)
	}
	r, err := c.session.do(ctx, http.MethodPost, u, http.Header{}, []byte{})
	if err != nil {
		return err
	}
	switch r.status {
	case http.StatusOK, http.StatusAccepted, http.StatusNotFound, http.StatusGone:
		return nil // it ends, or has ended
	}
	return r.failure("the function's run can't be terminated")
}

// A request is a row of telemetry.
type request struct {
	operation, parent string
	success           bool
	code              int
}

// How often telemetry is queried.
const (
	minQueryWait = 10 * time.Second
	maxQueryWait = 30 * time.Second
)

// followTelemetry queries telemetry for the request that the call made, until
// it is found. After the timeout it returns none, or an error that says that
// the end was not seen.
func (c *call) followTelemetry(ctx context.Context, until time.Time, none error) (*ExecuteOutput, error) {
	wait := max(minQueryWait, time.Duration(c.cfg.PollSeconds*float64(time.Second)))
	for {
		rows, err := c.query(ctx, c.kql())
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if _, passing := err.(*queryError); err != nil && !passing {
			return nil, err
		}
		if err == nil {
			out, err := c.pick(rows)
			if out != nil || err != nil {
				return out, err
			}
		}
		more, e := c.sleep(ctx, wait, until)
		switch {
		case e != nil:
			return nil, e
		case !more && none != nil && err == nil:
			return nil, none
		case !more:
			return nil, c.giveUp(err)
		}
		wait = min(wait+wait/2, max(wait, maxQueryWait))
	}
}

// kql returns the query for the call's request. The admin endpoint may lose the
// trace id, so for it the query includes the function's other requests since
// then.
func (c *call) kql() string {
	const before = 5 * time.Minute
	since, called := c.record.Called.Add(-before).UTC().Format(time.RFC3339), c.record.Called.Add(-time.Second).UTC().Format(time.RFC3339)
	table, at, id, parent, name, success, code := "requests", "timestamp", "operation_Id", "operation_ParentId", "operation_Name", "success", "resultCode"
	if c.app.WorkspaceID != "" {
		table, at, id, parent, name, success, code = "AppRequests", "TimeGenerated", "OperationId", "ParentId", "OperationName", "Success", "ResultCode"
	}
	which := fmt.Sprintf(`%s == "%s"`, id, c.operation())
	if c.record.Trace != "" {
		which = fmt.Sprintf(`(%s and %s == "%s")`, which, parent, c.parent())
	}
	if c.cfg.Trigger == "admin" {
		which += fmt.Sprintf(` or (%s == "%s" and %s >= datetime(%s))`, name, c.cfg.FunctionName, at, called)
	}
	return fmt.Sprintf(`%s | where %s > datetime(%s) | where %s | project at=%s, operation=%s, parent=%s, success=%s, code=%s | top 20 by at asc`,
		table, at, since, which, at, id, parent, success, code)
}

// pick finds the call's request among the rows; the output is nil if the
// request is not among them yet.
func (c *call) pick(rows []request) (*ExecuteOutput, error) {
	make := func(r request) *ExecuteOutput {
		return &ExecuteOutput{FunctionSuccess: r.success, HTTPStatus: r.code, TraceID: c.operation()}
	}
	for _, r := range rows {
		if r.operation == c.operation() && (c.record.Trace == "" || r.parent == c.parent()) {
			return make(r), nil
		}
	}
	switch {
	case len(rows) == 0 || c.cfg.Trigger == "http":
		return nil, nil
	case len(rows) > 1 && !c.cfg.AllowAmbiguous:
		return nil, errf("function %q: telemetry shows %d runs since the call and can't tell which one was meant; run it alone, by an HTTP trigger, or set allow_ambiguous", c.cfg.FunctionName, len(rows))
	}
	return make(rows[0]), nil
}

// A queryError is the error of a telemetry query that may be repeated.
type queryError struct{ err error }

func (e *queryError) Error() string { return e.err.Error() }
func (e *queryError) Unwrap() error { return e.err }

// query queries telemetry.
func (c *call) query(ctx context.Context, kql string) ([]request, error) {
	scope, path := insightsURL, []string{"v1", "apps", c.app.AppID, "query"}
	if c.app.WorkspaceID != "" {
		scope, path = workspaceURL, []string{"v1", "workspaces", c.app.WorkspaceID, "query"}
	}
	token, _, err := c.app.Tokens.Token(ctx, scope+"/.default")
	if err != nil {
		return nil, fmt.Errorf("connection %q: %w", c.app.id, err)
	}
	c.job.AddSecret("access token", token)
	body, err := json.Marshal(map[string]string{"query": kql})
	if err != nil {
		return nil, err
	}
	r, err := c.session.do(ctx, http.MethodPost, c.app.query.JoinPath(path...),
		http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}, body)
	if err == nil && r.status != http.StatusOK {
		err = r.failure("telemetry can't be asked")
	}
	if err != nil && !courier.IsPermanent(err) {
		err = &queryError{err}
	}
	if err != nil {
		return nil, err
	}
	rows, err := parseRows(r.body)
	if err != nil {
		return nil, errf("%s: the answer of telemetry: %w", r.where, err)
	}
	return rows, nil
}

// parseRows parses the first table of a response.
func parseRows(text []byte) ([]request, error) {
	var a struct {
		Tables []struct {
			Columns []struct{ Name string }
			Rows    [][]any
		}
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&a); err != nil || len(a.Tables) == 0 {
		return nil, errors.New("it has no table in a known form")
	}
	t := a.Tables[0]
	rows := []request{}
	for _, cells := range t.Rows {
		var r request
		for i, col := range t.Columns {
			if i >= len(cells) {
				return nil, errors.New("a row has fewer values than there are columns")
			}
			text := fmt.Sprint(cells[i])
			switch col.Name {
			case "operation":
				r.operation = text
			case "parent":
				r.parent = text
			case "success":
				r.success = strings.EqualFold(text, "true") || text == "1"
			case "code":
				r.code, _ = strconv.Atoi(text) // results of other triggers may be words
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}
