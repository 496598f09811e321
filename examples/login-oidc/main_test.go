package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/courierhq/courier/internal/test/lockedbuffer"
)

// A testProvider is an OpenID Connect provider at which everybody is logged in already, as the user
// that it is told.
type testProvider struct {
	*httptest.Server
	t      *testing.T
	signer jose.Signer
	keys   jose.JSONWebKeySet

	mu     sync.Mutex
	user   map[string]any              // claims of who is at the browser
	spoil  func(claims map[string]any) // changes what the ID token says
	codes  map[string]url.Values       // the requests of codes that were given out
	ended  []string                    // the ID tokens of those that were logged out
	refuse string                      // an error for all logins
}

func newTestProvider(t *testing.T) *testProvider {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &testProvider{t: t, codes: make(map[string]url.Values)}
	public := jose.JSONWebKey{Key: key.Public(), KeyID: "1", Algorithm: string(jose.ES256), Use: "sig"}
	p.keys.Keys = append(p.keys.Keys, public)
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, r *http.Request) {
		p.answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) { p.answer(w, p.keys) })
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /end", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = append(p.ended, r.FormValue("id_token_hint"))
		http.Redirect(w, r, r.FormValue("post_logout_redirect_uri"), http.StatusSeeOther)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *testProvider) answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		p.t.Error(err)
	}
}

func (p *testProvider) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q, back := r.URL.Query(), url.Values{"state": {r.FormValue("state")}}
	if p.refuse != "" {
		back.Set("error", p.refuse)
	} else {
		code := rand.Text()
		p.codes[code] = q
		back.Set("code", code)
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

func (p *testProvider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	if asked == nil || id != "courier" || secret != "client-secret" || asked.Get("code_challenge_method") != "S256" || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) {
		http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "courier", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(), "nonce": asked.Get("nonce")}
	for name, v := range p.user {
		claims[name] = v
	}
	if p.spoil != nil {
		p.spoil(claims)
	}
	raw, err := jwt.Signed(p.signer).Claims(claims).Serialize()
	if err != nil {
		p.t.Error(err)
	}
	p.answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": raw})
}

// A browser follows redirects and keeps cookies.
type browser struct {
	t      *testing.T
	client *http.Client
}

func open(t *testing.T) *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &browser{t, &http.Client{Jar: jar}}
}

// do sends a request and requires the status of the last answer. It returns its body and its
// address.
func (b *browser) do(method, at string, status int, headers ...string) (body, address string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, at, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.client.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		b.t.Fatalf("%s %s: %d, want %d, %v\n%s", method, at, resp.StatusCode, status, err, text)
	}
	return string(text), resp.Request.URL.String()
}

// serve starts a service with a provider.
func serve(t *testing.T) (*testProvider, string) {
	t.Helper()
	p := newTestProvider(t)
	var s *service
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.handler().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	var err error
	if s, err = newService(t.Context(), t.TempDir(), config{issuer: p.URL, client: "courier", secret: "client-secret", url: server.URL}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.pages.Close)
	return p, server.URL
}

// TestWalk goes the way of two users by HTTP: over the provider to the page, and out again.
func TestWalk(t *testing.T) {
	p, at := serve(t)
	p.user = map[string]any{"sub": "248289", "name": "Ann", "groups": []string{"staff", "courier-viewers"}}
	ann := open(t)
	page := at + home + "executions?where=state%3Afailed"
	text, address := ann.do("GET", page, http.StatusOK)
	if address != page || !strings.Contains(text, "Ann") || !strings.Contains(text, `href="/logout"`) {
		t.Errorf("the page is at %q\n%s", address, text)
	}
	start := []string{"Content-Type", "application/json", "Idempotency-Key", "1"}
	ann.do("POST", at+home+"api/v1/jobs/greet/executions", http.StatusForbidden, start...)

	p.user = map[string]any{"sub": "111", "name": "Otto", "groups": []string{"courier-operators"}}
	otto := open(t)
	if _, address := otto.do("GET", at+"/login?next=https%3A%2F%2Fevil.example.com%2F", http.StatusOK); address != at+home {
		t.Errorf("the login leads to %q", address)
	}
	otto.do("POST", at+home+"api/v1/jobs/greet/executions", http.StatusAccepted, start...)
	if text, _ = otto.do("GET", at+home+"api/v1/executions", http.StatusOK, "Accept", "application/json"); !strings.Contains(text, `"by":"111"`) {
		t.Errorf("the executions are %s", text)
	}

	p.refuse = "login_required"
	ann.do("POST", at+"/logout", http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	ann.do("GET", page, http.StatusOK)
	ann.do("POST", at+"/logout", http.StatusUnauthorized) // from the provider to the first page, and to the provider
	if len(p.ended) != 1 || strings.Count(p.ended[0], ".") != 2 {
		t.Errorf("the provider has logged out %v", p.ended)
	}
	ann.do("GET", at+home+"api/v1/jobs", http.StatusUnauthorized, "Accept", "application/json")
	otto.do("GET", page, http.StatusOK)
}

// TestNobody: an answer that is not for this browser, this service or this login lets nobody in.
func TestNobody(t *testing.T) {
	p, at := serve(t)
	var log lockedbuffer.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	for name, spoil := range map[string]func(map[string]any){
		"expected audience":              func(c map[string]any) { c["aud"] = "other" },
		"issued by a different provider": func(c map[string]any) { c["iss"] = "https://evil.example.com" },
		"for another login":              func(c map[string]any) { c["nonce"] = "1" },
		"token is expired":               func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
	} {
		p.user, p.spoil = map[string]any{"sub": "1", "groups": []string{"courier-operators"}}, spoil
		b := open(t)
		if text, _ := b.do("GET", at+home, http.StatusUnauthorized); !strings.Contains(text, "You are not logged in") {
			t.Errorf("%s: %s", name, text)
		}
		if !strings.Contains(log.String(), name) {
			t.Errorf("%s: the log has %s", name, log.String())
		}
		b.do("GET", at+home+"api/v1/jobs", http.StatusUnauthorized, "Accept", "application/json")
	}
	p.spoil = nil

	// A page elsewhere sends a browser here with a code of its own.
	p.codes["code"] = url.Values{}
	open(t).do("GET", at+"/callback?state=1&code=code", http.StatusUnauthorized)
	open(t).do("GET", at+"/callback?state=&code=code", http.StatusUnauthorized)
	b := open(t)
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	b.do("GET", at+"/login", http.StatusSeeOther)
	b.do("GET", at+"/callback?state=1&code=code", http.StatusUnauthorized)

	// Somebody without a group is known, and may do nothing.
	p.user = map[string]any{"sub": "2", "name": "Eve"}
	b = open(t)
	b.do("GET", at+home+"jobs", http.StatusOK)
	b.do("POST", at+home+"api/v1/jobs/greet/executions", http.StatusNotFound, "Content-Type", "application/json", "Idempotency-Key", "1")
}
