// Command object-depot keeps the inputs and results of executions in an object store with the
// protocol of S3. bucket.go is the depot; you can copy it into your program unchanged. Without -url
// the example starts a server in memory, gofakes3.
//
//	cd examples/object-depot
//	go run .
//	go run . -url https://s3.example.com/files -key KEY -secret-file FILE
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

func main() {
	var a access
	flag.StringVar(&a.url, "url", "", "the URL of the bucket; a server in memory if empty")
	flag.StringVar(&a.region, "region", "us-east-1", "the region of the bucket")
	flag.StringVar(&a.key, "key", "", "the id of the access key")
	flag.StringVar(&a.secretFile, "secret-file", "", "the file with the secret of the access key")
	flag.Parse()
	if err := start(a, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// An access has the address of a bucket and the key for it.
type access struct{ url, region, key, secretFile string }

// start runs the example with a bucket, or with a server in memory.
func start(a access, w io.Writer) error {
	secret, transport := []byte("secret"), http.RoundTripper(nil)
	if a.url == "" {
		s := httptest.NewTLSServer(gofakes3.New(s3mem.New(), gofakes3.WithAutoBucket(true)).Server())
		defer s.Close()
		a.url, a.key, transport = s.URL+"/files", "key", s.Client().Transport
	} else {
		var err error
		if secret, err = os.ReadFile(a.secretFile); err != nil {
			return fmt.Errorf("-secret-file: %w", err)
		}
	}
	b, err := open(a, strings.TrimSpace(string(secret)), transport)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return run(ctx, b, w)
}

// open returns the depot in a bucket. It sends no request. A nil transport means a default one.
func open(a access, secret string, transport http.RoundTripper) (*Bucket, error) {
	u, err := url.Parse(a.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.Count(strings.TrimSuffix(u.Path, "/"), "/") != 1 {
		return nil, fmt.Errorf("-url: %q is not the URL of a bucket, such as https://s3.example.com/files", a.url)
	}
	client, err := minio.New(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(a.key, secret, ""), Secure: u.Scheme == "https", Region: a.region, Transport: transport,
	})
	return &Bucket{Client: client, Name: strings.Trim(u.Path, "/")}, err
}

// job packs its input files, and keeps the archive.
var job = courier.Job{Name: "pack", Steps: []courier.StepSpec{
	{ID: "fetch", Type: "depot.fetch"},
	{ID: "pack", Type: "file.zip", Config: map[string]any{"source_path": "context:fetch.fetched_directory"}},
	{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "context:pack.archive_path"}},
}}

// run uploads two files, runs the job on them, and lists the files in the depot.
func run(ctx context.Context, d depot.Depot, w io.Writer) error {
	dir, err := os.MkdirTemp("", "object-depot")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var reg courier.Registry
	steps.Register(&reg, &steps.Options{Depot: d})
	e := engine.New(memstore.New(), &reg, &engine.Options{Workspace: dir})
	if _, err := e.Jobs().Define(ctx, job, nil); err != nil {
		return err
	}
	x, err := e.Prepare(ctx, job.Name, nil) // the files are stored before the execution is created
	if err != nil {
		return err
	}
	for name, content := range map[string]string{"a.csv": "1,2\n", "b.csv": "3,4\n"} {
		if err := upload(ctx, d, depot.InputKey(x.ID, name), content); err != nil {
			return err
		}
	}
	if _, err := e.EnqueueAll(ctx, []store.NewExecution{x}); err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return err
	}
	defer e.Stop(context.WithoutCancel(ctx))
	done, err := e.Wait(ctx, x.ID)
	if err != nil {
		return err
	}
	all, err := d.List(ctx, string(x.ID))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, done.State)
	for _, info := range all {
		_, name := depot.SplitKey(info.Key)
		fmt.Fprintf(w, "%-8s %5d bytes  sha256 %.16s...\n", name, info.Size, info.SHA256)
	}
	if err := depot.CleanOnce(ctx, d, e.Executions(), &depot.Retention{Keep: time.Nanosecond}); err != nil {
		return err
	}
	at, removed, err := depot.Removed(ctx, d, x.ID)
	fmt.Fprintf(w, "removed: %v, within a minute: %v\n", removed, time.Since(at) < time.Minute)
	return err
}

func upload(ctx context.Context, d depot.Depot, key, content string) error {
	p, err := d.Create(ctx, key)
	if err != nil {
		return err
	}
	defer p.Close()
	if _, err := io.WriteString(p, content); err != nil {
		return err
	}
	_, err = p.Commit()
	return err
}
