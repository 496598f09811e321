package httpreq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/transfer"
)

// Request is the step type http.request. The zero Request has the default
// options.
type Request struct {
	Options Options
}

// RequestConfig is the configuration of http.request.
type RequestConfig struct {
	Method  string            `json:"method" default:"GET" enum:"GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS" doc:"method of the request"`
	URL     string            `json:"url" courier:"required,url" doc:"address, with https:// and without credentials"`
	Query   map[string]string `json:"query,omitempty" doc:"parameters that are added to the URL, and escaped"`
	Headers map[string]string `json:"headers,omitempty" doc:"headers of the request"`

	Body        string          `json:"body,omitempty" courier:"at_most_one=body" doc:"text to send"`
	JSON        json.RawMessage `json:"json,omitempty" courier:"at_most_one=body" doc:"a value to send as JSON"`
	BodyPath    string          `json:"body_path,omitempty" courier:"path,at_most_one=body" doc:"a file to send"`
	ContentType string          `json:"content_type,omitempty" doc:"type of the sent content; by default application/json for json, text/plain for body, application/octet-stream for body_path"`

	Username    string `json:"username,omitempty" courier:"at_most_one=login" doc:"for basic authentication"`
	Password    string `json:"password,omitempty" doc:"for basic authentication, as secret:NAME"`
	BearerToken string `json:"bearer_token,omitempty" courier:"at_most_one=login" doc:"token for bearer authentication, as secret:NAME"`

	ExpectedStatus []Status `json:"expected_status,omitempty" doc:"statuses that count as success, such as 200, \"2xx\" or \"200-204\"; 2xx by default"`
	MaxRedirects   *int     `json:"max_redirects,omitempty" min:"0" max:"10" doc:"most redirects to follow; 5 by default, 0 follows none"`

	OutputPath      string   `json:"output_path,omitempty" courier:"path,at_most_one=receipt" doc:"file for the content of the response; an existing file is replaced when the content is complete"`
	Resume          bool     `json:"resume,omitempty" doc:"continue an interrupted download, if the server confirms that the content is unchanged"`
	SHA256          string   `json:"sha256,omitempty" doc:"hash that the content must have, as 64 hexadecimal digits"`
	MaxBytes        int64    `json:"max_bytes,omitempty" min:"0" doc:"largest content in bytes; by default 1 MiB, or 10 GiB with output_path"`
	ResponseHeaders []string `json:"response_headers,omitempty" doc:"headers of the response that become outputs"`

	TimeoutSeconds      float64  `json:"response_timeout_seconds,omitempty" min:"0" max:"86400" doc:"longest wait for the response; 60 by default"`
	MaxRetryWaitSeconds *float64 `json:"max_retry_wait_seconds,omitempty" min:"0" max:"86400" doc:"longest wait that a Retry-After of the server can cause; 60 by default, 0 means no wait"`
	IdempotencyKey      string   `json:"idempotency_key,omitempty" doc:"value of the Idempotency-Key header; none sends no header; by default the step makes one, except for GET, HEAD and OPTIONS"`
	Once                bool     `json:"once,omitempty" courier:"at_most_one=receipt" doc:"send at most once: a repetition returns the outputs of an answered request, and fails if an earlier one may have been received"`
}

// RequestOutput is the output of http.request.
type RequestOutput struct {
	Status         int               `json:"status" doc:"status of the response"`
	Headers        map[string]string `json:"headers" doc:"the response_headers that the response has, under the names given there"`
	ContentType    string            `json:"content_type,omitempty" doc:"type of the content"`
	Body           string            `json:"body,omitempty" doc:"content of the response, unless it went to a file"`
	JSON           json.RawMessage   `json:"json,omitempty" doc:"content of the response as a value, if it is JSON and did not go to a file"`
	DownloadedFile string            `json:"downloaded_file,omitempty" doc:"path of the file with the content"`
	Size           int64             `json:"size" doc:"bytes of content"`
	SHA256         string            `json:"sha256,omitempty" doc:"hash of the content, if sha256 is given"`
}

// Execute sends the request. A repetition sends it again with the same
// Idempotency-Key, unless once is set.
func (s Request) Execute(ctx context.Context, job *courier.Context, cfg RequestConfig) (RequestOutput, error) {
	p, err := s.prepare(ctx, job, &cfg)
	if err != nil {
		return RequestOutput{}, err
	}
	out, err := p.run(ctx)
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return RequestOutput{}, context.Cause(ctx)
	}
	if safehttp.IsPermanent(err) {
		err = courier.Permanent(err)
	}
	return RequestOutput{}, p.mask.error(err)
}

// Validate checks the configuration, that the body exists if it is outside the
// workspace, and that the server can be reached and proves its identity. It
// does not send the request.
func (s Request) Validate(ctx context.Context, job *courier.Context, cfg RequestConfig) error {
	for _, field := range []string{"url", "method", "query", "headers"} {
		if job.Unresolved(field) {
			return nil
		}
	}
	p, err := s.prepare(ctx, job, &cfg)
	if err != nil {
		return err
	}
	if err := p.checkPaths(); err != nil {
		return err
	}
	client, err := s.Options.open(ctx, job)
	if err != nil {
		return err
	}
	facts, err := client.Reach(ctx, p.url)
	if err != nil {
		if safehttp.IsPermanent(err) {
			err = courier.Permanent(err)
		}
		return p.mask.error(err)
	}
	job.Log().Info("the connection works", facts...)
	return nil
}

// Cleanup removes unfinished files of earlier attempts, except the files that
// resume needs.
func (s Request) Cleanup(ctx context.Context, job *courier.Context, cfg RequestConfig) error {
	if cfg.OutputPath == "" {
		return nil
	}
	return job.Files().RemoveSideFiles(cfg.OutputPath)
}

// run sends the request until the response does not ask to wait.
func (p *prepared) run(ctx context.Context) (RequestOutput, error) {
	if p.cfg.Once {
		return p.runOnce(ctx)
	}
	client, err := p.opt.open(ctx, p.job)
	if err != nil {
		return RequestOutput{}, err
	}
	for left := p.maxRetryWait; ; {
		out, err := p.exchange(ctx, client)
		wait, ok := errors.AsType[*waitError](err)
		if !ok || wait.after <= 0 || wait.after > left {
			return out, err
		}
		left -= wait.after
		p.job.Log().Info("the server asks to wait", "status", wait.status, "seconds", wait.after.Seconds())
		if err := p.sleep(ctx, wait.after); err != nil {
			return out, err
		}
	}
}

// sleep waits for d and reports progress meanwhile.
func (p *prepared) sleep(ctx context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	tick := time.NewTicker(transfer.BeatEvery)
	defer tick.Stop()
	for {
		p.meter.beat()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
		}
	}
}

// exchange sends the request once and processes the response.
func (p *prepared) exchange(ctx context.Context, client *safehttp.Client) (RequestOutput, error) {
	if ctx.Err() != nil {
		return RequestOutput{}, context.Cause(ctx)
	}
	ctx, guard := p.opt.limits().Guard(ctx)
	defer guard.End()
	p.meter.guard = guard
	part, err := p.openPart(ctx)
	if err != nil {
		return RequestOutput{}, err
	}
	defer part.close()
	req, err := p.request()
	if err != nil {
		return RequestOutput{}, err
	}
	part.ask(req.Header)
	resp, err := client.Do(ctx, req)
	if err != nil {
		return RequestOutput{}, err
	}
	defer resp.Body.Close()
	p.meter.beat()
	if part.stale(resp) {
		if err := part.forget(); err != nil {
			return RequestOutput{}, err
		}
		return p.exchange(ctx, client) // this time from the beginning
	}
	if err := p.accept(resp); err != nil {
		return RequestOutput{}, err
	}
	out := RequestOutput{Status: resp.StatusCode, Headers: p.chosen(resp.Header), ContentType: storable(resp.Header.Get("Content-Type"))}
	switch {
	case p.method == http.MethodHead:
	case p.cfg.OutputPath != "":
		err = p.toFile(ctx, resp, part, &out)
	default:
		err = p.toOutput(ctx, resp, &out)
	}
	return out, err
}

// errf is fmt.Errorf for errors that a retry cannot fix.
func errf(format string, args ...any) error {
	return courier.Permanent(fmt.Errorf(format, args...))
}
