package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/store"
)

// clientTypes returns the step types that a client runs in separate processes.
func clientTypes() (*courier.Registry, error) {
	reg := new(courier.Registry)
	exec.Register(reg, &exec.Options{Programs: map[string]exec.Program{"sh": {Path: "/bin/sh", Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}}})
	return reg, nil
}

// payload is the job of a client: it unpacks the files of a job, executes run.sh there, and keeps
// the directory as run.sh has left it, even if run.sh has failed.
func payload() courier.Job {
	anyCode, none := make([]int, 256), time.Duration(0)
	for code := range anyCode {
		anyCode[code] = code
	}
	dir := "${context:unpack.extracted_directory}"
	return courier.Job{
		Name: "payload", Params: map[string]any{"files": courier.Param{Type: "list", Required: true}, "request": nil},
		Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "unpack", Type: "file.unzip", Config: map[string]any{"archive_path": "${context:get.fetched_directory}/" + payloadName}},
			{ID: "run", Type: "exec.run", Timeout: &none, Config: map[string]any{
				"program": "sh", "args": []string{"run.sh"}, "directory": "context:unpack.extracted_directory", "success_codes": anyCode,
				"stdout_path": dir + "/stdout.txt", "stderr_path": dir + "/stderr.txt",
			}},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": dir + "/**", "ignore_missing": true}},
			{Type: "flow.if", Config: map[string]any{"left": "context:run.exit_code", "operator": "not_equals", "right": 0}},
			{ID: "failed", Type: "job.fail", Config: map[string]any{"message": "run.sh has returned ${context:run.exit_code}"}},
			{Type: "flow.end"},
		},
	}
}

// payloadName is the name of the archive in which a server sends the files of a job.
const payloadName = "payload.zip"

// newClient returns a client.
func newClient(ctx context.Context, s settings, on store.Store, files depot.Depot) (*part, error) {
	reg, err := clientTypes()
	if err != nil {
		return nil, err
	}
	file.Register(reg, nil)
	job.Register(reg)
	depot.Register(reg, files, &depot.Retention{Keep: s.maxAge, KeepFailed: s.maxAge})
	opt := s.options()
	opt.Isolate = map[string]courier.Isolation{"exec.run": {}}
	c := &part{settings: s, engine: engine.New(on, reg, opt), files: files, routes: http.NewServeMux()}
	policy := access.Policy{Who: func(r *http.Request) (access.Principal, error) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+s.token)) != 1 {
			return access.Principal{}, &access.Error{Unknown: true, Text: "this client works for servers with its ORCHESTRATOR_TOKEN"}
		}
		return access.Principal{ID: "server"}, nil
	}, MaxUnbegun: -1}
	c.api = httpapi.New(c.engine, &httpapi.Options{Access: policy, URL: "/courier/api/", Depot: files, Log: opt.Log})
	// The answer to POST /submit has the id of the payload. A server that was interrupted repeats
	// the request with the same Idempotency-Key, and gets the same payload.
	c.routes.Handle("POST /submit", c.api.Async("payload", &httpapi.AsyncOptions{Files: true, Require: []string{payloadName}, RequireKey: true, Timeout: new(time.Duration(0))}))
	c.routes.Handle("GET /retrieve/{id}", c.api.Func(func(w http.ResponseWriter, r *http.Request) error { return c.retrieve(policy, w, r) }))
	c.routes.Handle("/courier/api/", c.api)
	_, err = c.engine.Jobs().Define(ctx, payload(), nil)
	return c, errors.Join(err, c.engine.Limits().Set(ctx, "global", 0, courier.By{}))
}

// The headers with the result of a payload that has ended, beside the ZIP.
const (
	headerStatus = "X-Payload-Status" // Completed or Failed
	headerError  = "X-Payload-Error"
)

// retrieve answers with the status of a payload. If the payload is Prepared or Running, the answer
// is 202. If it has ended, even by a failure, the answer is the ZIP of its results.
func (c *part) retrieve(policy access.Policy, w http.ResponseWriter, r *http.Request) error {
	if _, err := policy.Who(r); err != nil {
		return err
	}
	id := r.PathValue("id")
	x, err := c.engine.Executions().Get(r.Context(), courier.ExecutionID(id))
	switch {
	case err != nil:
		return err
	case x.StartedAt.IsZero() && !x.State.Ended():
		return c.api.WriteJSON(w, r, http.StatusAccepted, map[string]any{"id": id, "status": "Prepared"})
	case !x.State.Ended():
		return c.api.WriteJSON(w, r, http.StatusAccepted, map[string]any{"id": id, "status": "Running"})
	}
	w.Header().Set(headerStatus, "Completed")
	if x.State != courier.Completed {
		w.Header().Set(headerStatus, "Failed")
		w.Header().Set(headerError, strings.Join(strings.Fields(x.Err().Error()), " "))
	}
	results := r.Clone(r.Context())
	results.Pattern, results.URL.Path, results.URL.RawPath, results.URL.RawQuery = "", "/v1/executions/"+id+"/results", "", "partial=1"
	c.api.ServeHTTP(w, results)
	return nil
}
