package azure_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/courierhq/courier/steps/azure"
)

// Whatever an authority answers, there is a token or a short error that shows
// neither the application's secret nor a part of it.
func TestHostileAuthority(t *testing.T) {
	const secret = "canary-client-secret-0123456789"
	answer := ""
	status, location := 200, ""
	asked := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if location != "" {
			w.Header().Set("Location", location)
		}
		w.WriteHeader(status)
		w.Write([]byte(answer))
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	deep := strings.Repeat("[", 500_000)
	for name, c := range map[string]struct {
		answer, location string
		status           int
		token            bool
	}{
		"good":                      {answer: `{"access_token": "t", "expires_in": 3600}`, token: true},
		"text for a number":         {answer: `{"access_token": "t", "expires_in": "3600"}`, token: true},
		"no end":                    {answer: `{"access_token": "t"}`, token: true},
		"an end long past":          {answer: `{"access_token": "t", "expires_in": -1e18}`, token: true},
		"an end that is too far":    {answer: `{"access_token": "t", "expires_in": 9223372036854775807}`, token: true},
		"an object for a token":     {answer: `{"access_token": {"a": 1}}`},
		"a number for a token":      {answer: `{"access_token": 1}`},
		"null":                      {answer: `null`},
		"a list":                    {answer: `["access_token"]`},
		"deep":                      {answer: deep},
		"deep inside":               {answer: `{"x": ` + deep},
		"huge":                      {answer: `{"access_token": "` + strings.Repeat("x", 2<<20) + `"}`},
		"nothing":                   {},
		"elsewhere":                 {status: 307, location: s.URL + "/other", answer: secret},
		"an internal address":       {status: 302, location: "http://169.254.169.254/"},
		"refused with control":      {status: 401, answer: "\x1b[2J\x07\u202e" + secret},
		"the secret where it's cut": {status: 401, answer: strings.Repeat("x", 485) + secret},
		"the secret in trouble":     {status: 503, answer: secret + secret},
	} {
		answer, location, asked = c.answer, c.location, 0
		if status = c.status; status == 0 {
			status = 200
		}
		source := &azure.ClientCredentials{
			Tenant: "tenant", ClientID: "client", Authority: s.URL, Secret: func(context.Context) (string, error) { return secret, nil },
			HTTP: azure.HTTP{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: roots},
		}
		token, ends, err := source.Token(t.Context(), "scope")
		if (err == nil) != c.token || c.token && token != "t" || asked != 1 {
			t.Errorf("%s: %q, %v, asked %d times", name, token, err, asked)
		}
		if err == nil {
			if left := time.Until(ends); left < 0 || left > 25*time.Hour {
				t.Errorf("%s: it ends in %v", name, left)
			}
			continue
		}
		if text := err.Error(); strings.Contains(text, "canary") || len(text) > 1000 || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%s: the error is %q", name, text)
		}
	}
}
