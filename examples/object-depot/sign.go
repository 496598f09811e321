package main

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// sign adds the signature of version 4 to a request whose body has the given SHA-256: a
// keyed hash of the method, the path, the query and the headers.
func (b *Bucket) sign(r *http.Request, sum string, at time.Time) {
	r.Header.Set("X-Amz-Date", at.UTC().Format("20060102T150405Z"))
	r.Header.Set("X-Amz-Content-Sha256", sum)
	names := []string{"host"}
	for name := range r.Header {
		if name = strings.ToLower(name); name == "range" || strings.HasPrefix(name, "x-amz-") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	scope, signature := b.signature(r, names)
	r.Header.Set("Authorization", fmt.Sprintf("AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s", b.Key, scope, strings.Join(names, ";"), signature))
}

// signature computes the signature over the headers with the given names.
func (b *Bucket) signature(r *http.Request, names []string) (scope, signature string) {
	var headers strings.Builder
	for _, name := range names {
		value := r.Header.Get(name)
		if name == "host" {
			value = cmp.Or(r.Host, r.URL.Host)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.TrimSpace(value))
	}
	request := strings.Join([]string{
		r.Method, escape(r.URL.Path, "/"), canonicalQuery(r.URL.Query()), headers.String(), strings.Join(names, ";"), r.Header.Get("X-Amz-Content-Sha256"),
	}, "\n")
	at := r.Header.Get("X-Amz-Date")
	day, region := at[:min(8, len(at))], cmp.Or(b.Region, "us-east-1")
	scope = day + "/" + region + "/s3/aws4_request"
	text := fmt.Sprintf("AWS4-HMAC-SHA256\n%s\n%s\n%x", at, scope, sha256.Sum256([]byte(request)))
	key := []byte("AWS4" + b.Secret)
	for _, part := range []string{day, region, "s3", "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return scope, hex.EncodeToString(key)
}

// canonicalQuery writes a query in the order and form that are signed.
func canonicalQuery(query url.Values) string {
	var parts []string
	for name, values := range query {
		for _, value := range values {
			parts = append(parts, escape(name, "")+"="+escape(value, ""))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

// escape writes all bytes but letters, digits, -._~ and those in keep as %XX.
func escape(s, keep string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if plain || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
