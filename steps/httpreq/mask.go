package httpreq

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
)

// A mask keeps what was sent in confidence out of messages, for a server may
// send it back.
type mask struct{ secrets []string }

// minSecret is the shortest text that is looked for; shorter ones occur by
// chance.
const minSecret = 4

// newMask knows credentials, and the values of headers and parameters, which
// may be some.
func newMask(cfg *RequestConfig) *mask {
	m := new(mask)
	m.add(cfg.Password, cfg.BearerToken, base64.StdEncoding.EncodeToString([]byte(cfg.Username+":"+cfg.Password)))
	for _, v := range cfg.Headers {
		m.add(v)
		if _, rest, ok := strings.Cut(v, " "); ok {
			m.add(rest)
		}
	}
	for _, v := range cfg.Query {
		m.add(v, url.QueryEscape(v))
	}
	if u, err := url.Parse(cfg.URL); err == nil {
		for _, vs := range u.Query() {
			m.add(vs...)
		}
	}
	slices.SortFunc(m.secrets, func(a, b string) int { return len(b) - len(a) })
	return m
}

func (m *mask) add(values ...string) {
	for _, v := range values {
		if len(v) >= minSecret {
			m.secrets = append(m.secrets, v)
		}
	}
}

func (m *mask) clean(s string) string {
	for _, v := range m.secrets {
		s = strings.ReplaceAll(s, v, "[secret]")
	}
	return s
}

// error returns err with a text without secrets.
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
