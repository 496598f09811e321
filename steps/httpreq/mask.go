package httpreq

import (
	"net/url"
	"strings"

	"github.com/courierhq/courier"
)

// A mask removes confidential values from messages, since a server may send
// them back: the job's secrets, credentials in the configuration, and the
// values of headers and parameters, which may be secrets.
type mask struct {
	job *courier.Context
	own courier.Redactor
}

func newMask(job *courier.Context, cfg *RequestConfig) *mask {
	m := &mask{job: job}
	m.own.Add("password", cfg.Password)
	if cfg.Password != "" {
		m.own.Add("password", cfg.Username+":"+cfg.Password)
	}
	m.own.Add("bearer_token", cfg.BearerToken)
	for name, v := range cfg.Headers {
		m.own.Add(name, v)
		if _, rest, ok := strings.Cut(v, " "); ok {
			m.own.Add(name, rest)
		}
	}
	for name, v := range cfg.Query {
		m.own.Add(name, v)
	}
	if u, err := url.Parse(cfg.URL); err == nil {
		for name, vs := range u.Query() {
			for _, v := range vs {
				m.own.Add(name, v)
			}
		}
	}
	return m
}

func (m *mask) clean(s string) string { return m.own.Redact(m.job.Redact(s)) }

// error returns err with a text that contains no secrets.
func (m *mask) error(err error) error {
	if text := err.Error(); m.clean(text) != text {
		return &masked{m.clean(text), err}
	}
	return err
}

type masked struct {
	text string
	err  error
}

func (e *masked) Error() string { return e.text }
func (e *masked) Unwrap() error { return e.err }
