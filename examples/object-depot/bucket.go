package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/minio/minio-go/v7"
)

// A Bucket is a depot in a bucket of an object store that speaks the protocol of S3. Hash
// and time of a file are metadata of its object. A bucket has no limit of its own: an
// error matches [depot.ErrFull] only where the server has a quota or a full disk.
type Bucket struct {
	Client *minio.Client
	Name   string
}

// Create implements [depot.Depot]. A pending file is a temporary file, because an upload
// begins with its metadata, and the hash is known at the end.
func (b *Bucket) Create(ctx context.Context, key string) (depot.Pending, error) {
	if err := cmp.Or(depot.CheckKey(key), context.Cause(ctx)); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp("", "object-depot")
	if err != nil {
		return nil, err
	}
	return &pending{b: b, ctx: ctx, info: depot.Info{Key: key}, file: f, hash: sha256.New()}, nil
}

type pending struct {
	b    *Bucket
	ctx  context.Context
	info depot.Info // of what is written
	file *os.File
	hash hash.Hash
	err  error // why nothing can be written or committed any more
}

func (p *pending) Write(data []byte) (n int, err error) {
	if p.err = cmp.Or(p.err, context.Cause(p.ctx)); p.err == nil {
		n, p.err = io.MultiWriter(p.file, p.hash).Write(data)
		p.info.Size += int64(n)
	}
	return n, p.err
}

// Commit uploads the file. An object is visible once all of it has arrived, also if it is
// uploaded in parts.
func (p *pending) Commit() (depot.Info, error) {
	if p.err = cmp.Or(p.err, context.Cause(p.ctx)); p.err != nil {
		return depot.Info{}, p.err
	}
	p.err = os.ErrClosed
	info, file := p.info, io.NewSectionReader(p.file, 0, p.info.Size)
	info.Time, info.SHA256 = time.Now().UTC(), hex.EncodeToString(p.hash.Sum(nil))
	_, err := p.b.Client.PutObject(p.ctx, p.b.Name, info.Key, file, info.Size, minio.PutObjectOptions{
		UserMetadata:         map[string]string{"Sha256": info.SHA256, "Time": info.Time.Format(time.RFC3339Nano)},
		DisableContentSha256: info.Size == 0, // over plain HTTP it would be sent without a length
	})
	return info, failure(p.ctx, info.Key, err)
}

func (p *pending) Close() error {
	p.err = os.ErrClosed
	if errors.Is(p.file.Close(), os.ErrClosed) {
		return nil // it was closed before
	}
	return os.Remove(p.file.Name())
}

// Open implements [depot.Depot].
func (b *Bucket) Open(ctx context.Context, key string) (depot.Object, error) {
	if err := cmp.Or(depot.CheckKey(key), context.Cause(ctx)); err != nil {
		return nil, err
	}
	o, err := b.Client.GetObject(ctx, b.Name, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, failure(ctx, key, err)
	}
	_, _ = o.Read(nil) // one request for content and description; Stat returns its error
	stat, err := o.Stat()
	info, err := describe(ctx, key, stat, err)
	if err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return &object{o, ctx, info}, nil
}

// An object is read to the end of its first request. After a Seek another request asks for
// the rest under the condition that the object is still the same.
type object struct {
	*minio.Object
	ctx  context.Context
	info depot.Info
}

func (o *object) Info() depot.Info { return o.info }

func (o *object) Read(data []byte) (int, error) {
	if o.ctx.Err() != nil {
		return 0, context.Cause(o.ctx)
	}
	n, err := o.Object.Read(data)
	return n, failure(o.ctx, o.info.Key, err)
}

// List implements [depot.Depot]. A listing has no metadata, so List asks for each object.
func (b *Bucket) List(ctx context.Context, prefix string) (all []depot.Info, err error) {
	keys, err := b.keys(ctx, prefix)
	for _, key := range keys {
		stat, err := b.Client.StatObject(ctx, b.Name, key, minio.StatObjectOptions{})
		info, err := describe(ctx, key, stat, err)
		if err == nil {
			all = append(all, info)
		} else if !errors.Is(err, courier.ErrNotFound) { // otherwise it was removed meanwhile
			return nil, err
		}
	}
	return all, err
}

// Remove implements [depot.Depot].
func (b *Bucket) Remove(ctx context.Context, prefix string) error {
	if prefix == "" {
		return courier.Errorf(courier.ErrInvalid, "the prefix is empty")
	}
	keys, err := b.keys(ctx, prefix)
	for _, key := range keys {
		err := failure(ctx, key, b.Client.RemoveObject(ctx, b.Name, key, minio.RemoveObjectOptions{}))
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			return err
		}
	}
	return err
}

// keys returns the keys with a prefix, sorted. Other objects in the bucket are left out.
func (b *Bucket) keys(ctx context.Context, prefix string) (all []string, err error) {
	if err := depot.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	opts := minio.ListObjectsOptions{Prefix: strings.TrimSuffix(prefix, "/"), Recursive: true}
	for o := range b.Client.ListObjectsIter(ctx, b.Name, opts) {
		if o.Err != nil {
			return nil, failure(ctx, prefix, o.Err)
		}
		if depot.HasPrefix(o.Key, prefix) && depot.CheckKey(o.Key) == nil {
			all = append(all, o.Key)
		}
	}
	slices.Sort(all)
	return all, context.Cause(ctx) // the listing ends without an error when ctx ends
}

// describe makes an Info of what the store says about an object, or an error.
func describe(ctx context.Context, key string, o minio.ObjectInfo, err error) (depot.Info, error) {
	if err != nil {
		return depot.Info{}, failure(ctx, key, err)
	}
	at, err := time.Parse(time.RFC3339Nano, o.UserMetadata["Time"])
	if err != nil {
		return depot.Info{}, fmt.Errorf("object store: %q was not put there by a depot; remove it by hand: %w", key, err)
	}
	return depot.Info{Key: key, Size: o.Size, Time: at, SHA256: o.UserMetadata["Sha256"]}, nil
}

// failure returns an error of the store as one of a depot.
func failure(ctx context.Context, key string, err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case err == nil || err == io.EOF:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case answer.Code == minio.NoSuchKey:
		return courier.Errorf(courier.ErrNotFound, "object store: %q: %w", key, err)
	case answer.StatusCode == http.StatusInsufficientStorage || strings.HasSuffix(answer.Code, "QuotaExceeded"):
		return courier.Errorf(depot.ErrFull, "object store: %q: %w", key, err)
	}
	return fmt.Errorf("object store: %q: %w", key, err)
}
