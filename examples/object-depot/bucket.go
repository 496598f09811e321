package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
)

// A Bucket is a depot in a bucket of an object store that speaks the protocol of S3. A
// file goes to a temporary file first, because a PUT has to name its hash; then one PUT
// makes it visible as a whole. Hash and time are metadata of the object.
type Bucket struct {
	URL         string // of the bucket: "https://s3.example.com/files"
	Region      string // empty is us-east-1
	Key, Secret string
	Client      *http.Client // nil is http.DefaultClient
}

var _ depot.Depot = (*Bucket)(nil)

// Create implements [depot.Depot].
func (b *Bucket) Create(ctx context.Context, key string) (depot.Pending, error) {
	if err := cmp.Or(depot.CheckKey(key), context.Cause(ctx)); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "object-depot")
	if err != nil {
		return nil, err
	}
	return &pending{b: b, ctx: ctx, key: key, f: f, hash: sha256.New()}, nil
}

// A pending is the temporary file of an object.
type pending struct {
	b    *Bucket
	ctx  context.Context
	key  string
	f    *os.File // nil when it is removed
	hash hash.Hash
	size int64
}

// Write implements [depot.Pending].
func (p *pending) Write(data []byte) (int, error) {
	if p.f == nil {
		return 0, os.ErrClosed
	}
	if p.ctx.Err() != nil {
		return 0, context.Cause(p.ctx)
	}
	n, err := p.f.Write(data)
	p.hash.Write(data[:n])
	p.size += int64(n)
	return n, err
}

// Commit implements [depot.Pending].
func (p *pending) Commit() (depot.Info, error) {
	info := depot.Info{Key: p.key, Size: p.size, Time: time.Now().UTC(), SHA256: hex.EncodeToString(p.hash.Sum(nil))}
	if p.f == nil {
		return info, os.ErrClosed
	}
	header := http.Header{"X-Amz-Meta-Sha256": {info.SHA256}, "X-Amz-Meta-Time": {info.Time.Format(time.RFC3339Nano)}}
	answer, err := p.b.do(p.ctx, "PUT", p.key, nil, header, io.NewSectionReader(p.f, 0, p.size), p.size, info.SHA256)
	if err != nil {
		return depot.Info{}, err
	}
	return info, errors.Join(answer.Body.Close(), p.Close())
}

// Close implements [depot.Pending].
func (p *pending) Close() error {
	if p.f == nil {
		return nil
	}
	f := p.f
	p.f = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// head describes an object, and returns the tag that changes with its content.
func (b *Bucket) head(ctx context.Context, key string) (info depot.Info, tag string, err error) {
	answer, err := b.do(ctx, "HEAD", key, nil, nil, nil, 0, empty)
	if err != nil {
		return info, "", err
	}
	answer.Body.Close()
	info = depot.Info{Key: key, Size: answer.ContentLength, SHA256: answer.Header.Get("X-Amz-Meta-Sha256")}
	info.Time, err = time.Parse(time.RFC3339Nano, answer.Header.Get("X-Amz-Meta-Time"))
	return info, answer.Header.Get("Etag"), err
}

// Open implements [depot.Depot].
func (b *Bucket) Open(ctx context.Context, key string) (depot.Object, error) {
	if err := cmp.Or(depot.CheckKey(key), context.Cause(ctx)); err != nil {
		return nil, err
	}
	info, tag, err := b.head(ctx, key)
	if err != nil {
		return nil, err
	}
	return &object{b: b, ctx: ctx, info: info, tag: tag}, nil
}

// An object asks for its content from where it is read, and only for that of its tag.
type object struct {
	b    *Bucket
	ctx  context.Context
	info depot.Info
	tag  string
	at   int64
	body io.ReadCloser // of the content from at on; nil when it is not asked for
}

// Info implements [depot.Object].
func (o *object) Info() depot.Info { return o.info }

// Read implements [io.Reader].
func (o *object) Read(data []byte) (int, error) {
	if o.ctx.Err() != nil {
		return 0, context.Cause(o.ctx)
	}
	if o.at >= o.info.Size {
		return 0, io.EOF
	}
	if o.body == nil {
		header := http.Header{"Range": {fmt.Sprintf("bytes=%d-", o.at)}, "If-Match": {o.tag}}
		answer, err := o.b.do(o.ctx, "GET", o.info.Key, nil, header, nil, 0, empty)
		if err != nil {
			return 0, err
		}
		o.body = answer.Body
	}
	n, err := o.body.Read(data)
	if o.at += int64(n); err == io.EOF && o.at < o.info.Size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// Seek implements [io.Seeker].
func (o *object) Seek(offset int64, whence int) (int64, error) {
	at := offset + map[int]int64{io.SeekCurrent: o.at, io.SeekEnd: o.info.Size}[whence]
	if at < 0 {
		return 0, errors.New("seek before the beginning")
	}
	err := o.Close()
	o.at = at
	return at, err
}

// Close implements [io.Closer].
func (o *object) Close() error {
	if o.body == nil {
		return nil
	}
	body := o.body
	o.body = nil
	return body.Close()
}

// List implements [depot.Depot]. A listing has no metadata, so it asks for each object.
func (b *Bucket) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	keys, err := b.keys(ctx, prefix)
	var all []depot.Info
	for _, key := range keys {
		info, _, err := b.head(ctx, key)
		if errors.Is(err, courier.ErrNotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, err
}

// keys returns the keys with a prefix. An object store lists them in order.
func (b *Bucket) keys(ctx context.Context, prefix string) (all []string, err error) {
	if err := cmp.Or(depot.CheckPrefix(prefix), context.Cause(ctx)); err != nil {
		return nil, err
	}
	query := url.Values{"list-type": {"2"}, "prefix": {strings.TrimSuffix(prefix, "/")}}
	for {
		answer, err := b.do(ctx, "GET", "", query, nil, nil, 0, empty)
		if err != nil {
			return nil, err
		}
		var page struct {
			Contents []struct{ Key string }
			Next     string `xml:"NextContinuationToken"`
		}
		err = xml.NewDecoder(io.LimitReader(answer.Body, 16<<20)).Decode(&page)
		if err := errors.Join(err, answer.Body.Close()); err != nil {
			return nil, fmt.Errorf("listing of the bucket: %w", err)
		}
		for _, o := range page.Contents {
			if depot.HasPrefix(o.Key, prefix) && depot.CheckKey(o.Key) == nil {
				all = append(all, o.Key)
			}
		}
		if page.Next == "" {
			return all, nil
		}
		query.Set("continuation-token", page.Next)
	}
}

// Remove implements [depot.Depot].
func (b *Bucket) Remove(ctx context.Context, prefix string) error {
	if prefix == "" {
		return courier.Errorf(courier.ErrInvalid, "the prefix is empty")
	}
	keys, err := b.keys(ctx, prefix)
	for _, key := range keys {
		answer, err := b.do(ctx, "DELETE", key, nil, nil, nil, 0, empty)
		if errors.Is(err, courier.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		answer.Body.Close()
	}
	return err
}

// empty is the SHA-256 of nothing.
const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// do sends a signed request. An answer that is no success becomes an error.
func (b *Bucket) do(ctx context.Context, method, key string, query url.Values, header http.Header, body io.Reader, size int64, sum string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, b.URL, body)
	if err != nil {
		return nil, err
	}
	if key != "" {
		r.URL.Path += "/" + key
	}
	r.URL.RawPath, r.URL.RawQuery = escape(r.URL.Path, "/"), canonicalQuery(query)
	for name, values := range header {
		r.Header[name] = values
	}
	r.ContentLength = size
	if size == 0 {
		r.Body = nil
	}
	b.sign(r, sum, time.Now())
	answer, err := cmp.Or(b.Client, http.DefaultClient).Do(r)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	err = fmt.Errorf("object store: %s %s: %s %.200q", method, key, answer.Status, bytes.TrimSpace(text))
	switch {
	case answer.StatusCode == http.StatusNotFound:
		err = courier.Errorf(courier.ErrNotFound, "%w", err)
	case answer.StatusCode == http.StatusInsufficientStorage || bytes.Contains(text, []byte("QuotaExceeded")):
		err = courier.Errorf(depot.ErrFull, "%w", err)
	}
	return nil, err
}
