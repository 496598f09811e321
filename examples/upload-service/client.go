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

// A server is an API, and what lets a client in.
type server struct{ api, token string }

func (s server) do(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+s.token)
	return http.DefaultClient.Do(r)
}

// client uploads two files, kills the worker that converts them, and downloads the results.
func client(ctx context.Context, s server, at place, out io.Writer) error {
	ann, err := start("ann", at)
	if err != nil {
		return err
	}
	defer ann.end()
	id, err := upload(ctx, s, map[string]string{"a.txt": "first\n", "b.txt": "second\n"})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "uploaded two files")
	var x struct {
		Status, Worker string
		Current        *struct{ Step int }
	}
	for x.Current == nil || x.Current.Step != 1 {
		if err := get(ctx, s, "executions/"+id, &x); err != nil {
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
	archive, err := results(ctx, s, "executions/"+id+"/results")
	if err != nil {
		return err
	}
	if err := get(ctx, s, "executions/"+id, &x); err != nil {
		return err
	}
	fmt.Fprintf(out, "the execution is %s\n", x.Status)
	return list(archive, out)
}

// upload sends files, and returns the id of the execution.
func upload(ctx context.Context, s server, files map[string]string) (string, error) {
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
	r, err := http.NewRequestWithContext(ctx, "POST", s.api+"jobs/convert/executions", &body)
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Idempotency-Key", "example") // a repetition starts nothing
	var started struct{ ID string }
	err = answer(s, r, http.StatusAccepted, &started)
	return started.ID, err
}

// results asks for the results until they are there.
func results(ctx context.Context, s server, path string) ([]byte, error) {
	for {
		r, err := http.NewRequestWithContext(ctx, "GET", s.api+path, nil)
		if err != nil {
			return nil, err
		}
		resp, err := s.do(r)
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

func get(ctx context.Context, s server, path string, v any) error {
	r, err := http.NewRequestWithContext(ctx, "GET", s.api+path, nil)
	if err != nil {
		return err
	}
	return answer(s, r, http.StatusOK, v)
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
func answer(s server, r *http.Request, status int, v any) error {
	resp, err := s.do(r)
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
