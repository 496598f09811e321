// Package webhook signs webhooks and checks their signatures, as the
// specification of Standard Webhooks says.
//
// A receiver reads the whole body, calls [Verify], and only then parses the body:
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
//	...
//	if err := webhook.Verify(r.Header, body, "whsec_..."); err != nil {
//		http.Error(w, err.Error(), http.StatusUnauthorized)
//		return
//	}
//
// One event can arrive more than once, with the same webhook-id. A receiver that must not
// act twice stores the ids that it has seen.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp" // in seconds since 1970
	HeaderSignature = "webhook-signature"
)

// Tolerance is how much the time of a webhook may differ from the receiver's, in both
// directions.
const Tolerance = 5 * time.Minute

// Errors of Verify.
var (
	ErrHeaders   = errors.New("webhook: the headers webhook-id, webhook-timestamp and webhook-signature are missing or malformed")
	ErrTime      = errors.New("webhook: the timestamp is more than five minutes from now")
	ErrSignature = errors.New("webhook: no signature matches a known secret")
)

// The bounds of a key in bytes.
const (
	minKey = 24
	maxKey = 64
)

// prefix begins the text of a secret.
const prefix = "whsec_"

// ParseSecret returns the key of a secret: the text "whsec_" and 24 to 64 bytes
// in base64. The error doesn't contain the secret.
func ParseSecret(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, prefix)
	if !ok {
		return nil, errors.New(`webhook: a secret must begin with "whsec_"`)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New(`webhook: the text after "whsec_" is not base64`)
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("webhook: the secret has %d bytes; it must have %d to %d", len(key), minKey, maxKey)
	}
	return key, nil
}

// Sign returns the value of webhook-signature for a body that is sent at a time with an id. It has
// a signature for each of the secrets, separated by spaces.
func Sign(id string, at time.Time, body []byte, secrets ...string) (string, error) {
	if !isID(id) {
		return "", fmt.Errorf("webhook: the id %q must be a text without dots, spaces and control characters", id)
	}
	var all []string
	for _, s := range secrets {
		key, err := ParseSecret(s)
		if err != nil {
			return "", err
		}
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(sum(key, id, strconv.FormatInt(at.Unix(), 10), body)))
	}
	if len(all) == 0 {
		return "", errors.New("webhook: there is no secret to sign with")
	}
	return strings.Join(all, " "), nil
}

// isID reports whether id is a valid id of a webhook. The signed text is the id, the time and the
// body with dots between them, so an id with a dot would allow another division of the same text.
func isID(id string) bool {
	return id != "" && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r == 0x7F || r == '.' })
}

func sum(key []byte, id, timestamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + timestamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Verify returns nil if a request with these headers and this body was signed with one of the
// secrets, and its time differs from now by at most [Tolerance]. Give several secrets while one is
// being replaced.
func Verify(h http.Header, body []byte, secrets ...string) error {
	return VerifyAt(time.Now(), h, body, secrets...)
}

// VerifyAt is Verify at another time than now. There must be one id, without dots, spaces
// and control characters, and one timestamp, in digits alone and without a leading zero.
func VerifyAt(now time.Time, h http.Header, body []byte, secrets ...string) error {
	id, timestamp, signatures := h.Get(HeaderID), h.Get(HeaderTimestamp), h.Get(HeaderSignature)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if !isID(id) || err != nil || seconds < 0 || timestamp != strconv.FormatInt(seconds, 10) || signatures == "" {
		return ErrHeaders
	}
	if len(h.Values(HeaderID)) > 1 || len(h.Values(HeaderTimestamp)) > 1 {
		return ErrHeaders
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > Tolerance || d < -Tolerance {
		return ErrTime
	}
	good := false
	for _, s := range secrets {
		key, err := ParseSecret(s)
		if err != nil {
			return err
		}
		want := sum(key, id, timestamp, body)
		for text := range strings.FieldsSeq(signatures) {
			value, ok := strings.CutPrefix(text, "v1,")
			got, err := base64.StdEncoding.DecodeString(value)
			if ok && err == nil && hmac.Equal(got, want) {
				good = true
			}
		}
	}
	if !good {
		return ErrSignature
	}
	return nil
}
