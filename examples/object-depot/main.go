// Command object-depot keeps the inputs and results of executions in an object store that
// speaks the protocol of S3. bucket.go is the depot; a program of yours can have it as it
// is. Without -url the example starts a small server of its own.
//
//	go run ./examples/object-depot -url https://s3.example.com/files -key KEY -secret-file FILE
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/steps"
	"github.com/courierhq/courier/store"
	"github.com/courierhq/courier/store/memstore"
)

func main() {
	b := &Bucket{}
	flag.StringVar(&b.URL, "url", "", "the URL of the bucket; a server of its own if empty")
	flag.StringVar(&b.Region, "region", "us-east-1", "the region of the bucket")
	flag.StringVar(&b.Key, "key", "", "the id of the access key")
	secret := flag.String("secret-file", "", "the file with the secret of the access key")
	flag.Parse()
	if err := start(b, *secret, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// start runs the example on a bucket, or on a server of its own.
func start(b *Bucket, secretFile string, w io.Writer) error {
	if b.URL == "" {
		s := httptest.NewServer(&Server{Key: "key", Secret: "secret", Page: 1000})
		defer s.Close()
		b.URL, b.Key, b.Secret = s.URL+"/files", "key", "secret"
	} else {
		text, err := os.ReadFile(secretFile)
		if err != nil {
			return fmt.Errorf("-secret-file: %w", err)
		}
		b.Secret = strings.TrimSpace(string(text))
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	return run(ctx, b, w)
}

// job packs what came with it, and keeps the archive.
var job = courier.Job{Name: "pack", Steps: []courier.StepSpec{
	{ID: "fetch", Type: "depot.fetch"},
	{ID: "pack", Type: "file.zip", Config: map[string]any{"source_path": "context:fetch.fetched_directory"}},
	{ID: "keep", Type: "depot.keep", Config: map[string]any{"source_path": "context:pack.archive_path"}},
}}

// run uploads two files, runs the job on them, and lists what is in the depot.
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
	x, err := e.Prepare(ctx, job.Name, nil) // the files come before the execution
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
