// Command tour goes through the API with a generated client: tour URL TOKEN.
package main

import (
	"bytes"
	"context"
	"fmt"
	"mime/multipart"
	"net/http"
	"os"

	"github.com/courierhq/courier/httpapi/contract/client"
)

func main() {
	if err := tour(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("the tour is over")
}

func tour(url, token string) error {
	ctx := context.Background()
	bearer := func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+token)
		return nil
	}
	c, err := client.NewClientWithResponses(url, client.WithRequestEditorFn(bearer))
	if err != nil {
		return err
	}
	stranger, err := client.NewClientWithResponses(url)
	if err != nil {
		return err
	}
	refused, err := stranger.ListExecutionsWithResponse(ctx, nil)
	if err != nil || refused.ApplicationproblemJSON401 == nil || refused.ApplicationproblemJSON401.Code != "unauthenticated" {
		return fmt.Errorf("without a token: %v %s", err, refused.Body)
	}

	steps := []client.StepSpec{{Type: "test.greet", Config: &map[string]any{"name": "context:params.name"}}}
	job := client.PutJob{Steps: steps, Params: &map[string]any{"name": "you", "files": []any{}}}
	anew := "*"
	put, err := c.PutJobWithResponse(ctx, "greet", &client.PutJobParams{IfNoneMatch: &anew}, job)
	if err != nil || put.JSON201 == nil {
		return fmt.Errorf("put a job: %v %s", err, put.Body)
	}
	steps[0].Type = "test.gret"
	etag := put.HTTPResponse.Header.Get("ETag")
	bad, err := c.PutJobWithResponse(ctx, "greet", &client.PutJobParams{IfMatch: &etag}, job)
	if err != nil || bad.ApplicationproblemJSON422 == nil || bad.ApplicationproblemJSON422.Problems == nil {
		return fmt.Errorf("put a job with a mistake: %v %s", err, bad.Body)
	}

	key, wait := "order-1", "wait=30"
	start := client.StartRequest{Params: &map[string]any{"name": "Ann"}}
	var id string
	for range 2 {
		started, err := c.StartExecutionWithResponse(ctx, "greet", &client.StartExecutionParams{IdempotencyKey: &key, Prefer: &wait}, start)
		if err != nil || started.JSON200 == nil {
			return fmt.Errorf("start: %v %s", err, started.Body)
		}
		x, err := started.JSON200.AsExecutionView()
		if err != nil || x.Status != "completed" || id != "" && x.Id != id {
			return fmt.Errorf("start: %v %s, after %q", err, started.Body, id)
		}
		id = x.Id
	}
	start.Params = &map[string]any{"name": "Ben"}
	reused, err := c.StartExecutionWithResponse(ctx, "greet", &client.StartExecutionParams{IdempotencyKey: &key}, start)
	if err != nil || reused.StatusCode() != http.StatusUnprocessableEntity {
		return fmt.Errorf("a key that was used: %v %s", err, reused.Body)
	}

	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, _ := w.CreateFormFile("file", "a.csv")
	_, _ = part.Write([]byte("1;2"))
	_ = w.Close()
	uploaded, err := c.StartExecutionWithBodyWithResponse(ctx, "greet", &client.StartExecutionParams{Prefer: &wait}, w.FormDataContentType(), &form)
	if err != nil || uploaded.JSON200 == nil {
		return fmt.Errorf("upload: %v %s", err, uploaded.Body)
	}

	got, err := c.GetExecutionWithResponse(ctx, id, nil)
	if err != nil || got.JSON200 == nil {
		return fmt.Errorf("get: %v %s", err, got.Body)
	}
	if x, err := got.JSON200.AsExecutionView(); err != nil || x.Job != "greet" || x.State != client.ExecutionViewStateCompleted {
		return fmt.Errorf("get: %v %s", err, got.Body)
	}
	jobs := []string{"greet"}
	list, err := c.ListExecutionsWithResponse(ctx, &client.ListExecutionsParams{Job: &jobs})
	if err != nil || list.JSON200 == nil || len(list.JSON200.Items) != 2 {
		return fmt.Errorf("list: %v %s", err, list.Body)
	}
	audit, err := c.ListAuditWithResponse(ctx, id, nil)
	if err != nil || audit.JSON200 == nil || len(audit.JSON200.Items) < 4 {
		return fmt.Errorf("audit: %v %s", err, audit.Body)
	}
	emitted := 0
	for _, e := range audit.JSON200.Items {
		if e.Events != nil {
			emitted += len(*e.Events)
		}
	}
	if emitted != 1 {
		return fmt.Errorf("audit: %d events: %s", emitted, audit.Body)
	}
	if why, err := c.ExplainExecutionWithResponse(ctx, id); err != nil || why.JSON200 == nil {
		return fmt.Errorf("explain: %v %s", err, why.Body)
	}
	late, err := c.CancelExecutionWithResponse(ctx, id, client.CancelRequest{})
	if err != nil || late.ApplicationproblemJSON409 == nil || late.ApplicationproblemJSON409.Code != "transition" {
		return fmt.Errorf("cancel what has ended: %v %s", err, late.Body)
	}
	missing, err := c.GetExecutionWithResponse(ctx, "nope", nil)
	if err != nil || missing.ApplicationproblemJSON404 == nil && missing.ApplicationproblemJSON400 == nil {
		return fmt.Errorf("get what is not there: %v %s", err, missing.Body)
	}
	return nil
}
