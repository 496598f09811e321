package httpreq

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
)

// A prepared is a request whose configuration has been checked.
type prepared struct {
	job   *courier.Context
	cfg   *RequestConfig
	opt   *Options
	trace string

	method string
	url    *url.URL
	header http.Header
	body   []byte // unless it comes from a file
	item   string // what is sent, for progress
	meter  *meter

	wait         time.Duration
	maxRetryWait time.Duration
	redirects    int
	limit        int64
	hash         string // that the content must have; empty for any
	mask         *mask
}

const (
	defaultWait      = 60 * time.Second
	defaultRetryWait = 60 * time.Second
	defaultRedirects = 5
	agent            = "courier"
)

// prepare checks a configuration.
func (s Request) prepare(ctx context.Context, job *courier.Context, cfg *RequestConfig) (*prepared, error) {
	p := &prepared{trace: job.Trace(ctx), job: job, cfg: cfg, opt: &s.Options, method: cfg.Method, header: http.Header{}, mask: newMask(job, cfg)}
	var err error
	switch {
	case cfg.Resume && (cfg.OutputPath == "" || p.method != http.MethodGet):
		return nil, errf("resume: needs the method GET and an output_path")
	}
	if p.url, err = p.parseURL(); err != nil {
		return nil, err
	}
	p.item = safehttp.Origin(p.url)
	p.meter = &meter{job: job, item: p.item, total: -1}
	p.setLimits()
	for _, check := range []func() error{p.setHash, p.setBody, p.setHeader, p.setAuth} {
		if err := check(); err != nil {
			return nil, courier.Permanent(err)
		}
	}
	p.limit = s.Options.limit(cfg)
	return p, nil
}

func (p *prepared) parseURL() (*url.URL, error) {
	u, err := safehttp.ParseURL(p.cfg.URL)
	if err == nil {
		opt := p.opt.client()
		err = opt.CheckURL(u)
	}
	if err != nil {
		return nil, errf("url: %w", err)
	}
	if len(p.cfg.Query) > 0 {
		var b strings.Builder
		b.WriteString(u.RawQuery)
		for _, name := range slices.Sorted(maps.Keys(p.cfg.Query)) {
			if b.Len() > 0 {
				b.WriteByte('&')
			}
			b.WriteString(url.QueryEscape(name) + "=" + url.QueryEscape(p.cfg.Query[name]))
		}
		u.RawQuery = b.String()
	}
	return u, nil
}

// setLimits sets the limits of the exchange, with their defaults.
func (p *prepared) setLimits() {
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	p.wait, p.maxRetryWait, p.redirects = defaultWait, defaultRetryWait, defaultRedirects
	if s := p.cfg.TimeoutSeconds; s > 0 {
		p.wait = seconds(s)
	}
	if s := p.cfg.MaxRetryWaitSeconds; s != nil {
		p.maxRetryWait = seconds(*s)
	}
	if n := p.cfg.MaxRedirects; n != nil {
		p.redirects = *n
	}
}

func (p *prepared) setHash() error {
	p.hash = strings.ToLower(p.cfg.SHA256)
	if sum, err := hex.DecodeString(p.hash); p.hash != "" && (err != nil || len(sum) != 32) {
		return errors.New("sha256: must be 64 hexadecimal digits")
	}
	return nil
}

// setBody sets a body that is not a file.
func (p *prepared) setBody() error {
	cfg, typ := p.cfg, ""
	switch {
	case cfg.Body != "":
		p.body, typ = []byte(cfg.Body), "text/plain; charset=utf-8"
	case len(cfg.JSON) > 0 && string(cfg.JSON) != "null":
		p.body, typ = cfg.JSON, "application/json"
	case cfg.BodyPath != "":
		typ = "application/octet-stream"
		p.item = baseName(cfg.BodyPath)
	}
	if typ != "" && (p.method == "GET" || p.method == "HEAD") {
		return fmt.Errorf("method: %s sends no body; use POST or PUT", p.method)
	}
	if cfg.ContentType != "" {
		typ = cfg.ContentType
	}
	if typ != "" {
		return p.setOne("content_type", "Content-Type", typ)
	}
	return nil
}

// reserved are the headers that the client itself sets.
var reserved = []string{"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func (p *prepared) setHeader() error {
	for _, name := range slices.Sorted(maps.Keys(p.cfg.Headers)) {
		if slices.Contains(reserved, textproto.CanonicalMIMEHeaderKey(name)) {
			return fmt.Errorf("headers: %s is set by the client itself; leave it out", safename.Quote(name))
		}
		if err := p.setOne("headers", name, p.cfg.Headers[name]); err != nil {
			return err
		}
	}
	if p.cfg.Resume && p.header.Get("Range") != "" {
		return errors.New("headers: Range can't be given together with resume")
	}
	for name, value := range map[string]string{"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": "identity"} {
		if len(p.header.Values(name)) == 0 {
			p.header.Set(name, value)
		}
	}
	if p.trace != "" && !p.opt.NoTrace && len(p.header.Values("Traceparent")) == 0 {
		p.header.Set("Traceparent", p.trace)
	}
	key := p.cfg.IdempotencyKey
	if key == "" && p.method != "GET" && p.method != "HEAD" && p.method != "OPTIONS" {
		key = stepKey(p.job)
	}
	if key != "" && key != "none" && p.header.Get("Idempotency-Key") == "" {
		return p.setOne("idempotency_key", "Idempotency-Key", key)
	}
	return nil
}

// setOne sets one header. The value does not appear in the error.
func (p *prepared) setOne(field, name, value string) error {
	const token = "!#$%&'*+-.^_`|~"
	for _, r := range name {
		if !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(token, r)) {
			return fmt.Errorf("%s: %s is not the name of a header", field, safename.Quote(name))
		}
	}
	bad := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	if name == "" || strings.ContainsFunc(value, bad) {
		return fmt.Errorf("%s: the value of %s contains a control character, or its name is empty", field, safename.Quote(name))
	}
	p.header.Set(name, value)
	return nil
}

func (p *prepared) setAuth() error {
	cfg := p.cfg
	basic := cfg.Username != "" || cfg.Password != ""
	switch {
	case !basic && cfg.BearerToken == "":
		return nil
	case basic && cfg.BearerToken != "":
		return errors.New("username and bearer_token: give one of them")
	case p.header.Get("Authorization") != "":
		return errors.New("headers: Authorization can't be given together with username or bearer_token")
	case strings.Contains(cfg.Username, ":"):
		return errors.New("username: must not contain a colon")
	}
	value := "Bearer " + cfg.BearerToken
	if basic {
		value = "Basic " + base64.StdEncoding.EncodeToString([]byte(cfg.Username+":"+cfg.Password))
	}
	return p.setOne("bearer_token", "Authorization", value)
}

// stepKey returns a key that is the same for all attempts of a step in its
// iteration, and different for every other step. An execution that is restarted
// from its first step gets a new key, since its requests may differ.
func stepKey(job *courier.Context) string {
	dir := job.Files().StepDir()
	if dir == "" {
		dir = job.StepName()
		if it := courier.FormatIteration(job.Iteration()); it != "" {
			dir += "/" + it
		}
	}
	return "courier-" + string(job.Execution()) + "-" + strings.ReplaceAll(dir, "/", "-")
}

// request returns the request to send.
func (p *prepared) request() (safehttp.Request, error) {
	r := safehttp.Request{
		Method: p.method, URL: p.url, Header: p.header.Clone(), MaxRedirects: p.redirects, Wait: p.wait, Beat: p.meter.beat, Once: p.cfg.Once,
	}
	if p.cfg.BodyPath != "" {
		info, err := p.stat()
		if err != nil {
			return r, err
		}
		r.Size = info.Size()
		r.Body = func() (io.ReadCloser, error) { return p.openBody(info) }
	} else if p.body != nil || p.method == "POST" || p.method == "PUT" || p.method == "PATCH" {
		r.Size = int64(len(p.body))
		r.Body = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.body)), nil }
	}
	return r, nil
}

// stat describes the file to send.
func (p *prepared) stat() (os.FileInfo, error) {
	f, err := p.job.Files().Open(p.cfg.BodyPath)
	if err != nil {
		return nil, fmt.Errorf("body_path: %w", err)
	}
	defer f.Close()
	return f.Stat()
}

// openBody opens the file to send, if it still matches the description.
func (p *prepared) openBody(want os.FileInfo) (io.ReadCloser, error) {
	f, err := p.job.Files().Open(p.cfg.BodyPath)
	if err != nil {
		return nil, fmt.Errorf("body_path: %w", err)
	}
	s := &source{File: f, want: want, item: p.item, meter: p.meter}
	if err := s.same(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// A source is the file to send.
type source struct {
	*os.File
	want  os.FileInfo
	item  string
	meter *meter
	sent  int64
}

func (s *source) same() error {
	is, err := s.Stat()
	if err == nil && (is.Size() != s.want.Size() || !is.ModTime().Equal(s.want.ModTime())) {
		err = fmt.Errorf("body_path %s: the file was changed while it was sent", safename.Quote(s.item))
	}
	return err
}

// Read fails at the end if the file has changed since the beginning.
func (s *source) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	s.sent += int64(n)
	if s.sent >= s.want.Size() {
		if e := s.same(); e != nil {
			return n, e
		}
	}
	if n > 0 {
		s.meter.report(s.item, s.sent, s.want.Size())
	}
	return n, err
}

// baseName returns the last element of a path.
func baseName(name string) string { return filepath.Base(filepath.FromSlash(name)) }

// checkPaths checks the paths as far as Validate can. A relative file is made
// by an earlier step, so only an absolute one can exist already.
func (p *prepared) checkPaths() error {
	if b := p.cfg.BodyPath; filepath.IsAbs(b) && !p.job.Unresolved("body_path") {
		if _, err := p.stat(); err != nil {
			return err
		}
	}
	if o := p.cfg.OutputPath; o != "" && !p.job.Unresolved("output_path") {
		if _, err := p.job.Files().Path(o); err != nil {
			return fmt.Errorf("output_path: %w", err)
		}
	}
	return nil
}
