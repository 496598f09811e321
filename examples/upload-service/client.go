package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"time"
)

// client uploads two files, kills the worker that converts them, and downloads the results.
func client(ctx context.Context, api string, at place, out io.Writer) error {
	ann, err := start("ann", at)
	if err != nil {
		return err
	}
	defer ann.end()
	id, err := upload(ctx, api, map[string]string{"a.txt": "first\n", "b.txt": "second\n"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "uploaded two files")
	var x struct {
		Status, Worker string
		Current        *struct{ Step int }
	}
	for x.Current == nil || x.Current.Step != 1 {
		if err := get(ctx, api+"executions/"+id, &x); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	if err := ann.cmd.Process.Kill(); err != nil {
		return err
	}
	fmt.Fprintf(out, "killed %s in the middle\n", x.Worker)
	bob, err := start("bob", at)
	if err != nil {
		return err
	}
	defer bob.end()
	archive, err := results(ctx, api+"executions/"+id+"/results")
	if err != nil {
		return err
	}
	if err := get(ctx, api+"executions/"+id, &x); err != nil {
		return err
	}
	fmt.Fprintf(out, "the execution is %s\n", x.Status)
	return list(archive, out)
}

// upload sends files, and returns the id of the execution.
func upload(ctx context.Context, api string, files map[string]string) (string, error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range files {
		w, err := form.CreateFormFile("file", name)
		if err != nil {
			return "", err
		}
		io.WriteString(w, text)
	}
	form.WriteField("seconds", "2")
	form.Close()
	r, err := http.NewRequestWithContext(ctx, "POST", api+"jobs/convert/executions", &body)
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Idempotency-Key", "example") // a repetition starts nothing
	var started struct{ ID string }
	err = answer(r, http.StatusAccepted, &started)
	return started.ID, err
}

// results asks for the results until they are there.
func results(ctx context.Context, url string) ([]byte, error) {
	for {
		r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case err != nil:
			return nil, err
		case resp.StatusCode == http.StatusOK:
			return body, nil
		case resp.StatusCode != http.StatusAccepted:
			return nil, fmt.Errorf("results: %s: %s", resp.Status, body)
		}
		time.Sleep(50 * time.Millisecond) // the header Retry-After says how long a real client waits
	}
}

func get(ctx context.Context, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	return answer(r, http.StatusOK, v)
}

// list prints the files of an archive.
func list(archive []byte, out io.Writer) error {
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return err
	}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %s", f.Name, text)
	}
	return nil
}

// answer sends a request, and decodes its answer.
func answer(r *http.Request, status int, v any) error {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != status {
		return fmt.Errorf("%s %s: %s: %s", r.Method, r.URL.Path, resp.Status, body)
	}
	return json.Unmarshal(body, v)
}
