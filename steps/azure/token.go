package azure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/safehttp"
)

// A TokenSource gets tokens of Microsoft Entra. It must be safe for concurrent
// use.
type TokenSource interface {
	// Token returns a token for a scope such as
	// "https://api.loganalytics.io/.default", and its expiry time.
	Token(ctx context.Context, scope string) (token string, ends time.Time, err error)
}

// ClientCredentials gets tokens for an application with the application's
// secret. It caches them until shortly before they expire. The zero value is
// not usable. It must not be copied after first use.
type ClientCredentials struct {
	Tenant, ClientID string
	// Secret returns the secret of the application. It is a function, so that
	// the secret need not be stored.
	Secret func(ctx context.Context) (string, error)
	// Authority is the URL of the token service; empty means
	// https://login.microsoftonline.com.
	Authority string
	HTTP      HTTP // what may be reached besides public addresses

	mu     sync.Mutex
	tokens map[string]token
}

type token struct {
	text string
	ends time.Time
}

var _ TokenSource = (*ClientCredentials)(nil)

const (
	authority   = "https://login.microsoftonline.com"
	tokenMargin = 5 * time.Minute
)

// String returns the client's id.
func (c *ClientCredentials) String() string { return "client " + c.ClientID }

// Token returns a token. Errors don't contain the secret.
func (c *ClientCredentials) Token(ctx context.Context, scope string) (string, time.Time, error) {
	c.mu.Lock()
	t := c.tokens[scope]
	c.mu.Unlock()
	if time.Until(t.ends) > tokenMargin {
		return t.text, t.ends, nil
	}
	t, err := c.fetch(ctx, scope)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("token for %s: %w", scope, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tokens == nil {
		c.tokens = make(map[string]token)
	}
	c.tokens[scope] = t
	return t.text, t.ends, nil
}

func (c *ClientCredentials) fetch(ctx context.Context, scope string) (token, error) {
	if c.Tenant == "" || c.ClientID == "" || c.Secret == nil {
		return token{}, errf("tenant, client id and secret of the client credentials are needed")
	}
	key, err := c.Secret(ctx)
	if err != nil {
		return token{}, err
	}
	base := c.Authority
	if base == "" {
		base = authority
	}
	u, err := parseBase(base)
	if err != nil {
		return token{}, errf("authority: %w", err)
	}
	form := url.Values{"grant_type": {"client_credentials"}, "client_id": {c.ClientID}, "client_secret": {key}, "scope": {scope}}
	client := safehttp.New(c.HTTP.options(u))
	defer client.Close()
	var secrets courier.Redactor
	secrets.Add("client_secret", key)
	s := &session{client: client, redact: secrets.Redact}
	r, err := s.do(ctx, http.MethodPost, u.JoinPath(c.Tenant, "oauth2", "v2.0", "token"),
		http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, []byte(form.Encode()))
	if err != nil {
		return token{}, err
	}
	var body struct {
		Token   string      `json:"access_token"`
		Expires json.Number `json:"expires_in"`
	}
	if r.status != http.StatusOK {
		return token{}, r.failure("the authority refuses the client")
	}
	if err := json.Unmarshal(r.body, &body); err != nil || body.Token == "" {
		return token{}, errors.New("the authority's answer has no access_token")
	}
	seconds, err := body.Expires.Int64()
	if err != nil || seconds <= 0 {
		seconds = int64(tokenMargin / time.Second)
	}
	return token{body.Token, time.Now().Add(time.Duration(min(seconds, 24*60*60)) * time.Second)}, nil
}
