// Package azure has the step azure_function.execute, which runs a function in
// Azure Functions and waits until it has completed.
//
// # How a function is run
//
// With an HTTP trigger: the step posts to /api/<function> with a function key. A 2xx response is
// the result. Azure's front end waits for 230 s. A function that takes longer must be durable: it
// responds 202 with statusQueryGetUri, which the step polls until the orchestration has ended.
//
// By the admin endpoint, for functions with another trigger: the step posts to
// /admin/functions/<function> with the master key, which grants full access to the app. The
// response says only that the function was started, so the step queries Application Insights, or
// a Log Analytics workspace, for the request that it made. Telemetry arrives up to five minutes
// late, and sampling may drop it unless host.json excludes requests from sampling. If several
// runs match, the step fails, unless allow_ambiguous is set.
//
// # Repetition
//
// Each step has an id, the same for all of its attempts, which is sent as x-ms-client-request-id.
// If the step has a trace context (see [courier.Context.Trace]), the header traceparent makes the
// call part of that trace, and half of the id is the span id. Otherwise the id is the id of a new
// trace. Before the function is called, a note is written to the workspace. Another note with the
// status URI is written when the URI is known. A repetition polls the status URI; without one it
// searches the telemetry for trace and span. If the telemetry shows nothing for
// telemetry_delay_seconds, or there is no telemetry, the function is called again; with once, the
// step fails instead. So a function may run twice if the worker dies between the call and the
// note of the response, and telemetry is not configured or lost. A durable function also runs
// twice if its status URI is lost in that way. A function that uses x-ms-client-request-id or the
// Idempotency-Key as its instance id prevents that. The status URI contains a key, so it is
// encrypted with the key of the connection before it is noted down.
//
// When the execution is cancelled, a durable run is terminated.
//
// # Tokens
//
// The query APIs require a token of Microsoft Entra, which a [TokenSource] gets.
// [ClientCredentials] is one. The module github.com/courierhq/courier/x/azureidentity makes one
// from any credential of the Azure SDK for Go, such as a managed identity.
package azure

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/courierhq/courier/internal/connfile"
	"github.com/courierhq/courier/internal/nearest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
)

// Register adds azure_function.execute to r. It panics if the key is taken. With a nil opt the
// step fails, since it finds no connection.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	courier.Register(r, "azure_function.execute", Execute{Options: *opt}, &courier.TypeOptions{
		Timeout: new(time.Duration(0)), Stall: new(stall),
		Doc:        "Runs a function in Azure Functions and waits until it has completed.",
		RepeatDoc:  "records a call before it makes it, and takes up that of an earlier attempt; if that may not have been received, calls again, or fails with once; after retry_job calls again",
		CleanupDoc: "terminates a running durable orchestration when the execution is cancelled; otherwise keeps what a resume needs",
	})
}

// stall is the longest time without a progress report; the step reports progress at each poll.
const stall = 5 * time.Minute

// Connections returns function apps by the ids that job definitions use. [Map] is a ready
// implementation.
type Connections interface {
	// Connection returns the app called id. If there is none, the error matches
	// [courier.ErrNotFound].
	Connection(ctx context.Context, id string) (Connection, error)
}

// A Connection describes a function app and how to query its runs. Formatting it shows no keys.
type Connection struct {
	// URL is the URL of the app, such as https://acme.azurewebsites.net.
	URL string
	// FunctionKey is for HTTP triggers, MasterKey for the admin endpoint. Each is the key itself,
	// or "secret:NAME" for a key that the engine's Secrets resolve.
	FunctionKey, MasterKey string

	// AppID is the application id of Application Insights, and WorkspaceID is the id of a Log
	// Analytics workspace. One of them is required for runs by the admin endpoint.
	AppID, WorkspaceID string
	// Tokens gets the tokens for AppID and WorkspaceID; it is required with either of them.
	Tokens TokenSource
	// QueryURL is the URL of the query API; empty means Azure's public cloud.
	QueryURL string
}

// String returns the URL.
func (c Connection) String() string { return c.URL }

// Format writes what String returns, whatever the verb.
func (c Connection) Format(f fmt.State, _ rune) { fmt.Fprint(f, c.String()) }

// A Map holds connections by id. It must not be changed while it is in use.
type Map map[string]Connection

var _ Connections = Map(nil)

// Connection returns the connection called id.
func (m Map) Connection(_ context.Context, id string) (Connection, error) {
	c, ok := m[id]
	if !ok {
		names := make([]string, 0, len(m))
		for n := range m {
			names = append(names, n)
		}
		return c, fmt.Errorf("connection %q: %w; %s", id, courier.ErrNotFound, nearest.DidYouMean(id, names))
	}
	return c, nil
}

// Options are what the step needs from the host application.
type Options struct {
	Connections Connections
	// HTTP says which addresses may be requested in addition to public ones, for apps in a
	// private network.
	HTTP HTTP
}

// app is a checked connection with its keys.
type app struct {
	Connection
	id          string
	base, query *url.URL
	functionKey string
	masterKey   string
}

const (
	insightsURL  = "https://api.applicationinsights.io"
	workspaceURL = "https://api.loganalytics.io"
)

// app looks a connection up.
func (o *Options) app(ctx context.Context, job *courier.Context, id string) (*app, error) {
	if o.Connections == nil {
		return nil, errf("connection_id: the host application has no connections; it has to set azure.Options.Connections")
	}
	c, err := o.Connections.Connection(ctx, id)
	if err != nil {
		if errors.Is(err, courier.ErrNotFound) {
			err = courier.Permanent(err)
		}
		return nil, fmt.Errorf("connection_id: %w", err)
	}
	a := &app{Connection: c, id: id}
	fail := func(field string, err error) (*app, error) {
		return nil, courier.Permanent(fmt.Errorf("connection %q: %s: %w", id, field, err))
	}
	if a.base, err = parseBase(c.URL); err != nil {
		return fail("url", err)
	}
	query := c.QueryURL
	switch {
	case c.AppID != "" && c.WorkspaceID != "":
		return fail("app_id", errors.New("give it or workspace_id"))
	case (c.AppID != "" || c.WorkspaceID != "") && c.Tokens == nil:
		return fail("tokens", errors.New("are missing; without them telemetry can't be queried"))
	case query == "" && c.WorkspaceID != "":
		query = workspaceURL
	case query == "":
		query = insightsURL
	}
	if a.query, err = parseBase(query); err != nil {
		return fail("query_url", err)
	}
	if a.functionKey, err = connfile.Secret(ctx, job, "function_key", c.FunctionKey); err != nil {
		return nil, fmt.Errorf("connection %q: %w", id, err)
	}
	if a.masterKey, err = connfile.Secret(ctx, job, "master_key", c.MasterKey); err != nil {
		return nil, fmt.Errorf("connection %q: %w", id, err)
	}
	return a, nil
}

// telemetry reports whether telemetry can be queried.
func (a *app) telemetry() bool { return a.Tokens != nil && (a.AppID != "" || a.WorkspaceID != "") }

func parseBase(text string) (*url.URL, error) {
	u, err := safehttp.ParseURL(text)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme == "" || u.Host == "" || u.User != nil || u.RawQuery != "":
		return nil, errors.New("must be like https://acme.azurewebsites.net")
	case u.Path == "":
		u.Path = "/"
	}
	return u, nil
}

// errf is fmt.Errorf for errors that a retry cannot fix.
func errf(format string, args ...any) error {
	return courier.Permanent(fmt.Errorf(format, args...))
}
