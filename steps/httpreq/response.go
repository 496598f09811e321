package httpreq

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/safehttp"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/internal/transfer"
)

// excerpt is how many bytes of an error response's body are read for the
// message.
const excerpt = 1 << 10

// accept returns nil if the response is a success.
func (p *prepared) accept(resp *http.Response) error {
	if p.expected(resp.StatusCode) {
		if resp.StatusCode == http.StatusPartialContent && p.header.Get("Range") == "" {
			return fmt.Errorf("%s %s: the server sends only a part of the content, which was not asked for", p.method, safehttp.Origin(p.url))
		}
		return nil
	}
	text := fmt.Sprintf("%s %s: the server answers with status %d", p.method, safehttp.Origin(p.url), resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		text += " (" + name + ")"
	}
	// What can't be read is missing from the message, which is no harm.
	words, _ := io.ReadAll(io.LimitReader(resp.Body, excerpt))
	if len(words) == excerpt {
		words = append(words, "..."...)
	}
	if s := strings.TrimSpace(p.mask.clean(strings.ToValidUTF8(string(words), "\uFFFD"))); s != "" {
		text += ": " + safename.Quote(s)
	}
	err := errors.New(text + advice(resp.StatusCode))
	if resp.StatusCode >= 400 && resp.StatusCode < 500 {
		err = &refusal{err}
	}
	if passing(resp.StatusCode) {
		return &waitError{err: err, status: resp.StatusCode, after: retryAfter(resp.Header)}
	}
	return errf("%w", err)
}

// advice says how to fix a failure with the given status.
func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; check the credentials and what they permit"
	case http.StatusNotFound, http.StatusGone:
		return "; check the url"
	case http.StatusMethodNotAllowed:
		return "; check the method"
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return "; use the url that the server redirects to, or set max_redirects"
	}
	return ""
}

// chosen returns the headers that become outputs.
func (p *prepared) chosen(h http.Header) map[string]string {
	m := make(map[string]string)
	for _, name := range p.cfg.ResponseHeaders {
		if v := h.Values(name); len(v) > 0 {
			m[name] = storable(strings.Join(v, ", "))
		}
	}
	return m
}

// storable returns s as text that every store accepts.
func storable(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

var errTooLarge = errors.New("content is too large")

// A limited reader returns errTooLarge after n bytes, if more follow.
type limited struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (l *limited) Read(b []byte) (int, error) {
	if int64(len(b)) > l.n+1 {
		b = b[:l.n+1]
	}
	n, err := l.r.Read(b)
	if int64(n) > l.n {
		n, l.n = int(l.n), 0
		return n, errTooLarge
	}
	l.n -= int64(n)
	return n, err
}

// tooLarge returns the error of a response that is larger than allowed.
func (p *prepared) tooLarge() error {
	advice := "raise max_bytes, or write the content to a file by output_path"
	if p.cfg.OutputPath != "" {
		advice = "raise max_bytes, if the host application allows more"
	}
	return errf("%s %s: the content of the response has more than %d bytes; %s", p.method, safehttp.Origin(p.url), p.limit, advice)
}

// content returns the content of a response, at most left bytes of it. It
// decompresses content that the server has compressed without being asked to.
func (p *prepared) content(resp *http.Response, left int64) (io.Reader, error) {
	encoding := strings.ToLower(strings.TrimSpace(resp.Header.Get("Content-Encoding")))
	_, own := p.cfg.Headers["Accept-Encoding"]
	switch {
	case encoding == "" || encoding == "identity" || own:
		if resp.ContentLength > left {
			return nil, p.tooLarge()
		}
		return &limited{resp.Body, left}, nil
	case encoding != "gzip" && encoding != "x-gzip":
		return nil, errf("%s %s: the content is encoded as %s, which was not asked for", p.method, safehttp.Origin(p.url), safename.Quote(encoding))
	}
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		return nil, p.broken(err)
	}
	return &limited{z, left}, nil
}

// broken returns the error of a body that arrived incomplete or damaged.
func (p *prepared) broken(err error) error {
	where := fmt.Sprintf("%s %s: ", p.method, safehttp.Origin(p.url))
	switch {
	case errors.Is(err, errTooLarge):
		return p.tooLarge()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%sthe response ends in the middle; the connection was lost or the server gave up: %w", where, err)
	}
	return fmt.Errorf("%sthe content of the response: %w", where, err)
}

// memoryTime is how long a response that becomes an output may take.
const memoryTime = 5 * time.Minute

var errTakesLong = fmt.Errorf("it takes longer than %v; write it to a file by output_path", memoryTime)

// toOutput stores the content as an output.
func (p *prepared) toOutput(ctx context.Context, resp *http.Response, out *RequestOutput) error {
	ctx, cancel := context.WithTimeoutCause(ctx, memoryTime, errTakesLong)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { resp.Body.Close() })
	defer stop()
	r, err := p.content(resp, p.limit)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	_, err = transfer.Copy(ctx, &b, r, func(done int64) { p.meter.report(p.item, done, resp.ContentLength) })
	if err != nil {
		return p.broken(err)
	}
	text := b.Bytes()
	if p.hash != "" {
		h := sha256.Sum256(text)
		if out.SHA256 = hex.EncodeToString(h[:]); out.SHA256 != p.hash {
			return p.wrongHash(out.SHA256)
		}
	}
	out.Size = int64(len(text))
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return errf("%s %s: the content of the response is not text, so it can't be an output; write it to a file by output_path", p.method, safehttp.Origin(p.url))
	}
	if isJSON(resp.Header.Get("Content-Type")) {
		if !json.Valid(text) {
			return fmt.Errorf("%s %s: the content of the response should be JSON, but is not valid", p.method, safehttp.Origin(p.url))
		}
		if jsontext.Depth(text) > safehttp.MaxDepth {
			return errf("%s %s: the JSON of the response is nested more than %d times; write it to a file by output_path", p.method, safehttp.Origin(p.url), safehttp.MaxDepth)
		}
		out.JSON = text
	}
	out.Body = string(text)
	return nil
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// wrongHash returns an error that is retried: the content may have been damaged
// in transit.
func (p *prepared) wrongHash(got string) error {
	return fmt.Errorf("%s %s: the content has the SHA-256 %s and not that of sha256, %s", p.method, safehttp.Origin(p.url), got, p.hash)
}

// A hashing writer computes the hash of the written bytes.
type hashing struct {
	w io.Writer
	h hash.Hash
}

// Write implements io.Writer.
func (w hashing) Write(b []byte) (int, error) {
	n, err := w.w.Write(b)
	w.h.Write(b[:max(0, min(n, len(b)))])
	return n, err
}
