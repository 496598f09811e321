package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/minio/minio-go/v7"
)

// A Bucket is a depot in a bucket of an object store with the protocol of S3. The hash and the time
// of a file are metadata of its object. A bucket itself has no limit: an error matches
// [depot.ErrFull] only if the server has a quota or its disk is full.
//
// Set a lifecycle rule of the bucket that removes incomplete uploads: if a process dies, the parts
// of its uploads stay, and no listing shows them. Turn off versioning, or removed files are kept as
// versions. With very many files set depot.Retention.Every to an hour: retention lists 1,000 names
// with each request, and with Retention.Most it also requests each file.
type Bucket struct {
	Client *minio.Client
	Name   string
}

// Create implements [depot.Depot]. An object becomes visible when all of it has arrived, even if it
// is uploaded in parts.
func (b *Bucket) Create(ctx context.Context, key string) (depot.Pending, error) {
	return depot.Spool(ctx, key, func(ctx context.Context, info depot.Info, content io.ReadSeeker) error {
		_, err := b.Client.PutObject(ctx, b.Name, key, content, info.Size, minio.PutObjectOptions{
			UserMetadata:         map[string]string{"Sha256": info.SHA256, "Time": info.Time.Format(time.RFC3339Nano)},
			DisableContentSha256: info.Size == 0, // over plain HTTP it would be sent without a length
		})
		return failure(ctx, key, err)
	})
}

// Open implements [depot.Depot]. An object is read to its end with one request. After a Seek
// another request reads the rest, under the condition that the object is unchanged.
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
	return depot.NewObject(ctx, info, o), nil
}

// List implements [depot.Depot]. A listing has no metadata, so List asks for each object.
func (b *Bucket) List(ctx context.Context, prefix string) ([]depot.Info, error) {
	return b.listing(ctx, prefix).Infos(ctx, prefix, func(key string) (depot.Info, error) {
		stat, err := b.Client.StatObject(ctx, b.Name, key, minio.StatObjectOptions{})
		return describe(ctx, key, stat, err)
	})
}

// Remove implements [depot.Depot].
func (b *Bucket) Remove(ctx context.Context, prefix string) error {
	return b.listing(ctx, prefix).Remove(ctx, prefix, func(key string) error {
		return failure(ctx, key, b.Client.RemoveObject(ctx, b.Name, key, minio.RemoveObjectOptions{}))
	})
}

// Executions implements [depot.ExecutionLister], so that retention need not request each object.
func (b *Bucket) Executions(ctx context.Context) ([]courier.ExecutionID, error) {
	return b.listing(ctx, "").Executions(ctx)
}

// listing returns the names of the objects that begin with a prefix.
func (b *Bucket) listing(ctx context.Context, prefix string) depot.Listing {
	return func(yield func(string, error) bool) {
		opts := minio.ListObjectsOptions{Prefix: strings.TrimSuffix(prefix, "/"), Recursive: true}
		for o := range b.Client.ListObjectsIter(ctx, b.Name, opts) {
			if !yield(o.Key, failure(ctx, prefix, o.Err)) {
				return
			}
		}
	}
}

// describe makes an Info from the description of an object in the store, or returns an error.
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

// failure returns an error of the store as an error of a depot.
func failure(ctx context.Context, key string, err error) error {
	answer := minio.ToErrorResponse(err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case answer.Code == minio.NoSuchKey:
		return courier.Errorf(courier.ErrNotFound, "object store: %q: %w", key, err)
	case answer.StatusCode == http.StatusInsufficientStorage || strings.HasSuffix(answer.Code, "QuotaExceeded"):
		return courier.Errorf(depot.ErrFull, "object store: %q: %w", key, err)
	}
	return fmt.Errorf("object store: %q: %w", key, err)
}
