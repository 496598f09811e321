package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/store"
)

// The indexes of the steps of a server's job at which its state changes.
const (
	stepSubmit   = 2
	stepRetrieve = 3
)

// job is the job of a server for a service: it submits the files to the client of the service,
// waits until the client has executed them, and retrieves the results.
func (v service) job(maxAge time.Duration) courier.Job {
	pause := 500 * time.Millisecond
	return courier.Job{
		Name: v.name, Params: map[string]any{"user_id": courier.Param{Type: "text", Required: true}, "files": courier.Param{Type: "list", Required: true}},
		Steps: []courier.StepSpec{
			{ID: "get", Type: "depot.fetch"},
			{ID: "pack", Type: "file.zip", Config: map[string]any{"source_path": "${context:get.fetched_directory}/*", "output_path": payloadName}},
			{ID: "submit", Type: "http.request", Config: map[string]any{ // without a retry
				"method": "POST", "url": v.url + "/submit", "bearer_token": "secret:token", "body_path": "context:pack.archive_path", "content_type": "application/zip",
				"headers": map[string]any{"Content-Disposition": "attachment; filename=" + payloadName}, "expected_status": []int{http.StatusAccepted}, "max_retry_wait_seconds": 0,
			}},
			{ID: "retrieve", Type: "orchestrator.retrieve", Config: map[string]any{"url": v.url + "/retrieve/${context:submit.json.id}"},
				FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: new(1_000_000), BackoffBase: &pause}},
			{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": resultsName, "ignore_missing": true}},
			{Type: "flow.if", Config: map[string]any{"left": "context:retrieve.status", "operator": "not_equals", "right": "Completed"}},
			{ID: "failed", Type: "job.fail", Config: map[string]any{"message": "${context:retrieve.error}"}},
			{Type: "flow.end"},
		},
		Timeout: maxAge,
	}
}

const resultsName = "results.zip"

// state returns the name of a job's state in this program. Removed says that the files of the job
// were removed.
func state(x *courier.Execution, removed bool) string {
	retrieving := x.Position.Step >= stepRetrieve
	switch {
	case removed:
		return "Cleaned"
	case x.State == courier.Completed:
		return "Completed"
	case x.State.Ended() && !(retrieving && x.Failure != nil && x.Failure.Reason == courier.ReasonExecution):
		return "Failed"
	case retrieving && (x.Retries > 0 || x.State.Ended()):
		return "Unknown" // the last retrieval has failed
	case retrieving:
		return "Submitted"
	case !x.StartedAt.IsZero():
		return "Processing"
	}
	return "Queued"
}

type retrieveConfig struct {
	URL string `json:"url"`
}

type retrieved struct {
	Status string `json:"status"` // Completed or Failed
	Error  string `json:"error"`
}

// retrieve is the step type orchestrator.retrieve. It asks for the results of a payload every 500
// ms until the payload has ended, and writes them to a file.
func retrieve(ctx context.Context, job *courier.Context, cfg retrieveConfig) (out retrieved, err error) {
	token, err := job.Secret(ctx, "token")
	if err != nil {
		return out, err
	}
	for {
		out, err = ask(ctx, job, cfg.URL, token)
		if err != nil || out.Status != "" {
			return out, err
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

// ask asks once. The status is empty if the payload has not ended.
func ask(ctx context.Context, job *courier.Context, url, token string) (out retrieved, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return out, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, courier.WithClass(err, courier.ReasonConnection)
	}
	defer resp.Body.Close()
	out = retrieved{resp.Header.Get(headerStatus), resp.Header.Get(headerError)}
	switch {
	case resp.StatusCode == http.StatusAccepted, resp.StatusCode == http.StatusNotFound && out.Status != "": // it has ended and left nothing
		return out, nil
	case resp.StatusCode != http.StatusOK || out.Status == "":
		return out, fmt.Errorf("the client has answered %s", resp.Status)
	}
	f, err := job.Files().Create(resultsName)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if _, err := io.Copy(f, resp.Body); err != nil {
		return out, err
	}
	return out, f.Commit()
}

// newServer returns a server.
func newServer(ctx context.Context, s settings, on store.Store, files depot.Depot) (*part, error) {
	reg := new(courier.Registry)
	file.Register(reg, nil)
	job.Register(reg)
	httpreq.Register(reg, &httpreq.Options{Hosts: hosts(s.services), TrustedHosts: hosts(s.services), AllowPlain: true})
	depot.Register(reg, files, &depot.Retention{Keep: s.maxAge, KeepFailed: s.maxAge}) // looks every 60 s
	courier.RegisterFunc(reg, "orchestrator.retrieve", retrieve, &courier.TypeOptions{Timeout: new(time.Duration(0)), Doc: "Retrieves the results of a payload."})
	opt := s.options()
	opt.Secrets = func(context.Context, courier.SecretRequest) (string, error) { return s.token, nil }
	v := &part{settings: s, engine: engine.New(on, reg, opt), files: files, routes: http.NewServeMux()}
	v.api = httpapi.New(v.engine, &httpapi.Options{URL: "/courier/api/", Log: opt.Log}) // refuses every caller, but explains problems
	v.routes.Handle("POST /upload", v.api.Func(v.upload))
	v.routes.Handle("GET /download/{id}", v.api.Func(v.download))
	v.routes.Handle("/courier/api/", v.api)
	all := []error{v.engine.Limits().Set(ctx, "global", 0, courier.By{})}
	for _, service := range s.services {
		_, err := v.engine.Jobs().Define(ctx, service.job(s.maxAge), nil)
		all = append(all, err, v.engine.Limits().Set(ctx, "key:"+quotaKey(service.name, "*"), service.quota, courier.By{}))
	}
	return v, errors.Join(all...)
}

// quotaKey is the limit key for the jobs of a user that are in progress at a service.
func quotaKey(service, user string) string { return "quota:" + service + "/" + user }

func invalid(format string, args ...any) error {
	return courier.Errorf(courier.ErrInvalid, format, args...)
}

// maxUpload is the largest size of an upload in bytes.
const maxUpload = 1 << 30

// upload stores the files of a job, and queues the job. Nothing is kept of a refused request.
func (v *part) upload(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload)
	if err := r.ParseMultipartForm(1 << 20); err != nil {
		if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return big
		}
		return invalid("the body must be multipart/form-data: %w", err)
	}
	defer r.MultipartForm.RemoveAll()
	user, service, list := r.PostFormValue("user_id"), r.PostFormValue("service"), []*multipart.FileHeader(nil)
	for _, part := range r.MultipartForm.File {
		list = append(list, part...)
	}
	slices.SortStableFunc(list, func(a, b *multipart.FileHeader) int { return strings.Compare(a.Filename, b.Filename) })
	if user == "" || service == "" {
		return invalid("the fields user_id and service are needed")
	}
	if !slices.ContainsFunc(list, func(f *multipart.FileHeader) bool { return f.Filename == "run.sh" }) {
		return invalid("a file run.sh is needed")
	}
	files := []any{}
	for _, f := range list {
		files = append(files, map[string]any{"name": f.Filename, "size": f.Size})
	}
	opt := &courier.EnqueueOptions{
		Params: map[string]any{"user_id": user, "files": files}, LimitKeys: []string{quotaKey(service, user)},
		Labels: map[string]string{courier.LabelBy: user}, By: courier.By{Actor: user},
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		opt.IdempotencyKey = user + ": " + key // each user has its own keys
	}
	n, err := v.engine.Prepare(r.Context(), service, opt)
	if errors.Is(err, courier.ErrNotFound) {
		return invalid("service: %v", err)
	}
	if err != nil {
		return err
	}
	var x courier.Execution
	err = v.keep(r.Context(), n.ID, list)
	kept := err == nil
	if kept {
		var got []courier.Execution
		if got, err = v.engine.EnqueueAll(r.Context(), []store.NewExecution{n}); err == nil {
			x = got[0]
		}
	}
	reused := errors.Is(err, courier.ErrConflict)
	if !kept || reused || err == nil && x.ID != n.ID { // no job has the files; where that is not known, they are removed after a day
		err = errors.Join(err, v.files.Remove(context.WithoutCancel(r.Context()), string(n.ID)))
	}
	switch {
	case reused:
		return httpapi.ErrKeyReused
	case err != nil:
		return err
	}
	w.Header().Set("Location", "/download/"+string(x.ID))
	return v.api.WriteJSON(w, r, http.StatusAccepted, map[string]any{"id": x.ID, "status": state(&x, false)})
}

// keep puts files, in order, into the directory of an execution.
func (v *part) keep(ctx context.Context, id courier.ExecutionID, list []*multipart.FileHeader) error {
	for i, f := range list {
		if i > 0 && strings.EqualFold(f.Filename, list[i-1].Filename) {
			return invalid("there are two files %q", f.Filename)
		}
		if err := v.keepFile(ctx, depot.InputKey(id, f.Filename), f); err != nil {
			return err
		}
	}
	return nil
}

func (v *part) keepFile(ctx context.Context, key string, f *multipart.FileHeader) error {
	from, err := f.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := v.files.Create(ctx, key)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	_, err = to.Commit()
	return err
}

// download answers with the ZIP of a completed job, and with the state of any other job. The
// results of a failed job are at ?partial=1.
func (v *part) download(w http.ResponseWriter, r *http.Request) error {
	x, err := v.engine.Executions().Get(r.Context(), courier.ExecutionID(r.PathValue("id")))
	if err != nil {
		return err
	}
	o, missing := v.files.Open(r.Context(), depot.ResultKey(x.ID, resultsName))
	if missing == nil {
		defer o.Close()
	} else if !errors.Is(missing, courier.ErrNotFound) {
		return missing
	}
	_, removed, err := depot.Removed(r.Context(), v.files, x.ID)
	if err != nil {
		return err
	}
	s := state(&x, removed)
	if missing == nil && (s == "Completed" || s == "Failed" && r.FormValue("partial") != "") {
		w.Header().Set("Content-Type", "application/zip")
		w.Header().Set("Content-Disposition", `attachment; filename="`+resultsName+`"`)
		http.ServeContent(w, r, resultsName, o.Info().Time, o)
		return nil
	}
	j := map[string]any{"id": x.ID, "status": s, "user_id": x.By, "service": x.Job}
	if x.Failure != nil && s != "Completed" {
		j["error"] = x.Failure.Message
	}
	if missing == nil && s == "Failed" {
		j["output"] = "/download/" + string(x.ID) + "?partial=1"
	}
	return v.api.WriteJSON(w, r, http.StatusOK, j)
}
