package azureidentity_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/x/azureidentity"
)

const (
	scope       = "https://api.loganalytics.io/.default"
	accessToken = "canary-access-token"
	clientKey   = "canary-client-secret"
	masterKey   = "canary-master-key"
)

// A fake is a credential that answers as it is told.
type fake struct {
	token  azcore.AccessToken
	err    error
	scopes []string
}

func (f *fake) GetToken(ctx context.Context, opt policy.TokenRequestOptions) (azcore.AccessToken, error) {
	f.scopes = append(f.scopes, opt.Scopes...)
	if ctx.Err() != nil {
		return azcore.AccessToken{}, errors.New("the SDK's words for a context that has ended")
	}
	return f.token, f.err
}

func TestToken(t *testing.T) {
	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	f := &fake{token: azcore.AccessToken{Token: accessToken, ExpiresOn: ends}}
	text, until, err := azureidentity.New(f).Token(t.Context(), scope)
	if text != accessToken || !until.Equal(ends) || err != nil {
		t.Errorf("%q until %v, %v", text, until, err)
	}
	if len(f.scopes) != 1 || f.scopes[0] != scope {
		t.Errorf("asked for %q", f.scopes)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, azureidentity.New(f)); text != "credential *azureidentity_test.fake" {
			t.Errorf("%s shows %q", verb, text)
		}
	}
}

func TestTokenFails(t *testing.T) {
	long := strings.Repeat("ä", 600)
	for _, c := range []struct {
		name      string
		err       error
		permanent bool
		want      string
	}{
		{"without words", nil, false, "returned none"},
		{"many lines", errors.New("no luck\n-----\n\tat all\r\n====\n"), false, "no luck at all"},
		{"endless", errors.New(long), false, strings.Repeat("ä", 500) + "…"},
		{"a person has to log in", &azidentity.AuthenticationRequiredError{}, true, "; check the credential"},
		{"refused", failure(t, 401, `{"error": "invalid_client", "error_description": "AADSTS7000215: no\r\nTrace"}`), true,
			"status 401: invalid_client AADSTS7000215: no Trace; check the credential and what it may do"},
		{"refused in other words", failure(t, 403, "<html>\nno"), true, "status 403: <html> no; check"},
		{"refused in silence", failure(t, 400, ""), true, "status 400; check"},
		{"busy", failure(t, 429, "later"), false, "status 429: later"},
		{"slow", failure(t, 408, "later"), false, "status 408: later"},
		{"broken", failure(t, 503, "later"), false, "status 503: later"},
		{"nothing was answered", &azidentity.AuthenticationFailedError{}, false, "token for " + scope},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := azureidentity.New(&fake{err: c.err}).Token(t.Context(), scope)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\r\n") {
				t.Fatalf("the error is %v, want %q in it, on one line", err, c.want)
			}
			if courier.IsPermanent(err) != c.permanent {
				t.Errorf("permanent is %v for %v", !c.permanent, err)
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the step was cancelled")
	cancel(why)
	if _, _, err := azureidentity.New(&fake{}).Token(ctx, scope); err != why {
		t.Errorf("cancelled: %v, want the cause", err)
	}
}

// failure is what azidentity makes of an answer of the authority.
func failure(t *testing.T, status int, body string) error {
	t.Helper()
	return &azidentity.AuthenticationFailedError{RawResponse: &http.Response{
		StatusCode: status, Status: http.StatusText(status), Body: io.NopCloser(strings.NewReader(body)),
	}}
}

// An authority hands out tokens to an application that knows its secret.
type authority struct {
	*httptest.Server
	asked  atomic.Int32
	status int // that it answers with, unless 0
}

func newAuthority(t *testing.T) *authority {
	a := new(authority)
	a.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			at := a.URL + "/tenant"
			fmt.Fprintf(w, `{"token_endpoint": "%s/oauth2/v2.0/token", "authorization_endpoint": "%s/authorize", "issuer": "%s/v2.0"}`, at, at, at)
			return
		}
		a.asked.Add(1)
		if err := r.ParseForm(); err != nil || a.status != 0 || r.Form.Get("client_secret") != clientKey || r.Form.Get("scope") == "" {
			w.WriteHeader(max(a.status, http.StatusUnauthorized))
			io.WriteString(w, `{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}`)
			return
		}
		fmt.Fprintf(w, `{"access_token": %q, "expires_in": 3600, "token_type": "Bearer"}`, accessToken)
	}))
	t.Cleanup(a.Close)
	return a
}

// credential is the SDK's own, for the authority.
func (a *authority) credential(t *testing.T, secret string) *azidentity.ClientSecretCredential {
	t.Helper()
	c, err := azidentity.NewClientSecretCredential("tenant", "client", secret, &azidentity.ClientSecretCredentialOptions{
		DisableInstanceDiscovery: true,
		ClientOptions: azcore.ClientOptions{
			Cloud:     cloud.Configuration{ActiveDirectoryAuthorityHost: a.URL},
			Transport: a.Client(), Retry: policy.RetryOptions{MaxRetries: -1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestSDK is about a credential of the SDK itself, with an authority on this
// machine.
func TestSDK(t *testing.T) {
	a := newAuthority(t)
	source := azureidentity.New(a.credential(t, clientKey))
	for range 2 {
		text, ends, err := source.Token(t.Context(), scope)
		if left := time.Until(ends); text != accessToken || err != nil || left < 50*time.Minute || left > 70*time.Minute {
			t.Errorf("%q until %v, %v", text, ends, err)
		}
	}
	if n := a.asked.Load(); n != 1 {
		t.Errorf("the authority was asked %d times, want once: the SDK keeps tokens", n)
	}

	_, _, err := azureidentity.New(a.credential(t, "canary-wrong")).Token(t.Context(), scope)
	if err == nil || !courier.IsPermanent(err) || !strings.Contains(err.Error(), "status 401: invalid_client AADSTS7000215") || strings.Contains(err.Error(), "canary") {
		t.Errorf("a wrong secret: %v (permanent: %v)", err, courier.IsPermanent(err))
	}
	a.status = http.StatusServiceUnavailable
	if _, _, err = azureidentity.New(a.credential(t, clientKey)).Token(t.Context(), scope); err == nil || courier.IsPermanent(err) {
		t.Errorf("an authority in trouble: %v (permanent: %v)", err, courier.IsPermanent(err))
	}
}

// TestStep runs azure_function.execute, which follows the run in telemetry with
// a token of the SDK.
func TestStep(t *testing.T) {
	a := newAuthority(t)
	var trace string
	app := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/admin/functions/nightly" && r.Header.Get("X-Functions-Key") == masterKey:
			trace = strings.Split(r.Header.Get("Traceparent"), "-")[1]
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path == "/v1/apps/app1/query" && r.Header.Get("Authorization") == "Bearer "+accessToken:
			fmt.Fprintf(w, `{"tables": [{"columns": [{"name": "operation"}, {"name": "success"}, {"name": "code"}], "rows": [[%q, "True", "200"]]}]}`, trace)
		default:
			http.Error(w, "who are you", http.StatusUnauthorized)
		}
	}))
	t.Cleanup(app.Close)
	roots := x509.NewCertPool()
	roots.AddCert(app.Certificate())
	opt := &azure.Options{
		HTTP: azure.HTTP{Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: roots},
		Connections: azure.Map{"acme": {
			URL: app.URL, MasterKey: masterKey, AppID: "app1", QueryURL: app.URL, Tokens: azureidentity.New(a.credential(t, clientKey)),
		}},
	}
	var r courier.Registry
	azure.Register(&r, opt)
	typ, _ := r.Lookup("azure_function.execute")
	var log bytes.Buffer
	job := courier.NewContext(courier.ContextConfig{
		Execution: "e1", Attempt: 1, Workspace: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	defer job.Close()
	raw, err := typ.Execute(t.Context(), job, json.RawMessage(`{"connection_id": "acme", "function_name": "nightly"}`))
	if err != nil || trace == "" || !strings.Contains(string(raw), `"function_success":true`) {
		t.Errorf("%s, %v", raw, err)
	}
	if strings.Contains(log.String()+string(raw), "canary") {
		t.Errorf("a key shows: %s %s", log.String(), raw)
	}
}
