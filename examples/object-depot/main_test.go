package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/depot/depottest"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/minio/minio-go/v7"
)

// TestProgram runs the program, and compares what it prints.
func TestProgram(t *testing.T) {
	var b bytes.Buffer
	if err := start(access{}, &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"completed\na.csv        4 bytes", "b.csv        4 bytes", ".zip ", "removed: true, within a minute: true"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := start(access{url: "https://s3.example.com/files", secretFile: secret}, &b); err == nil || !strings.Contains(err.Error(), "-secret-file") {
		t.Errorf("without the file of the secret: %v", err)
	}
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"s3.example.com/files", "https://s3.example.com", "ftp://s3.example.com/files", "https:///files", "https://s3.example.com/a/b", ":"} {
		if err := start(access{url: address, secretFile: secret}, &b); err == nil || !strings.Contains(err.Error(), "-url") {
			t.Errorf("-url %s: %v", address, err)
		}
	}
}

// A pass sees the requests to a server, and answers them or hands them on.
type pass func(w http.ResponseWriter, r *http.Request, server http.Handler)

// serve starts a server in memory and returns the depot in it.
func serve(t testing.TB, tls bool, p pass) *Bucket {
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	server := gofakes3.New(backend).Server()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p(w, r, server) }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // connections end on purpose
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	b, err := open(access{url: s.URL + "/files", region: "us-east-1", key: "key"}, "hunter2", s.Client().Transport)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// like does what the server alone does not: a GET with If-Match is refused when the object
// is another one.
func like(w http.ResponseWriter, r *http.Request, server http.Handler) {
	if tag := r.Header.Get("If-Match"); tag != "" && r.Method == http.MethodGet {
		head := httptest.NewRecorder()
		server.ServeHTTP(head, httptest.NewRequest(http.MethodHead, r.URL.String(), nil))
		if strings.Trim(head.Header().Get("ETag"), `"`) != strings.Trim(tag, `"`) {
			refuse(w, http.StatusPreconditionFailed, "PreconditionFailed")
			return
		}
	}
	server.ServeHTTP(w, r)
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>the server says %s</Message></Error>", code, code)
}

// TestDepot holds the bucket to the contract of depots. The server has no limit, so there
// is no case for a full depot here: see TestRefused.
func TestDepot(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, tls := range map[string]bool{"TLS": true, "plain": false} {
		t.Run(name, func(t *testing.T) {
			depottest.Run(t, depottest.Case{
				Open:    func(t testing.TB) depot.Depot { return serve(t, tls, like) },
				MayLose: true,
			})
		})
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// parts is more bytes than an upload in one request has.
const parts = 17 << 20

// TestParts: a file that is uploaded in parts is what was written. Without TLS the server
// does not take parts as minio-go signs them.
func TestParts(t *testing.T) {
	var requests atomic.Int32
	b := serve(t, true, func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if r.URL.Query().Has("partNumber") {
			requests.Add(1)
		}
		server.ServeHTTP(w, r)
	})
	content := make([]byte, parts)
	rand.NewChaCha8([32]byte{}).Read(content)
	key := depot.ResultKey(execution, "large")
	put(t, b, key, string(content))
	o, err := b.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	sum := sha256.Sum256(content)
	if info := o.Info(); requests.Load() != 2 || info.Size != parts || info.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("%d parts became %+v", requests.Load(), info)
	}
	if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, content) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	const at = parts - 100
	if _, err := o.Seek(at, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(o); err != nil || !bytes.Equal(got, content[at:]) {
		t.Errorf("read %d bytes from %d on, %v", len(got), at, err)
	}
}

const execution = "0198c2f0-0000-7000-8000-000000000001"

func put(t testing.TB, b *Bucket, key, content string) {
	t.Helper()
	if err := upload(t.Context(), b, key, content); err != nil {
		t.Fatal(err)
	}
}

// TestPages: a server lists at most 1,000 keys at once.
func TestPages(t *testing.T) {
	const n = 2100
	var pages atomic.Int32
	b := serve(t, true, func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if r.URL.Query().Has("list-type") {
			pages.Add(1)
		}
		server.ServeHTTP(w, r)
	})
	for i := range n {
		put(t, b, depot.ResultKey(execution, fmt.Sprintf("%04d", i)), "x")
	}
	put(t, b, depot.InputKey(execution, "a"), "x")
	if got, err := b.Executions(t.Context()); err != nil || len(got) != 1 || got[0] != execution || pages.Swap(0) != 3 {
		t.Errorf("the executions are %v, %v", got, err)
	}
	prefix := depot.ResultKey(execution, "")
	all, err := b.List(t.Context(), prefix)
	if err != nil || len(all) != n || pages.Load() != 3 {
		t.Fatalf("%d files on %d pages, %v; want %d on 3", len(all), pages.Load(), err, n)
	}
	for i, info := range all {
		if want := prefix + fmt.Sprintf("%04d", i); info.Key != want {
			t.Fatalf("file %d is %s, want %s", i, info.Key, want)
		}
	}
	if err := b.Remove(t.Context(), prefix); err != nil {
		t.Fatal(err)
	}
	if all, err := b.List(t.Context(), ""); err != nil || len(all) != 1 || all[0].Key != depot.InputKey(execution, "a") {
		t.Errorf("after the removal there are %v, %v", all, err)
	}
}

// TestReplaced: after a Seek an open file gives its own content or an error.
func TestReplaced(t *testing.T) {
	b := serve(t, true, like)
	key := depot.InputKey(execution, "a")
	for _, young := range []string{"the new content, which is longer", "new"} {
		const old = "the old content"
		put(t, b, key, old)
		o, err := b.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		for _, change := range []string{"", young} {
			if change != "" {
				put(t, b, key, change)
			}
			if at, err := o.Seek(4, io.SeekStart); err != nil || at != 4 {
				t.Fatalf("seek: %d, %v", at, err)
			}
			text, err := io.ReadAll(o)
			if same := err == nil && string(text) == old[4:]; change == "" && !same || change != "" && (err == nil || len(text) > 0) {
				t.Errorf("after %q was put there: %q, %v", change, text, err)
			}
		}
	}
}

// TestForeign: objects that are no files of a depot are left alone, or named.
func TestForeign(t *testing.T) {
	b := serve(t, true, like)
	ctx := t.Context()
	foreign := func(key string) {
		t.Helper()
		if _, err := b.Client.PutObject(ctx, b.Name, key, strings.NewReader("x"), 1, minio.PutObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	foreign("notes.txt")
	foreign(execution + "/notes.txt")
	if all, err := b.List(ctx, ""); err != nil || len(all) > 0 {
		t.Errorf("list: %v, %v", all, err)
	}
	if err := b.Remove(ctx, execution); err != nil {
		t.Error(err)
	}
	for _, key := range []string{"notes.txt", execution + "/notes.txt"} {
		if _, err := b.Client.StatObject(ctx, b.Name, key, minio.StatObjectOptions{}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	key := depot.InputKey(execution, "a")
	foreign(key)
	_, err := b.List(ctx, "")
	_, err2 := b.Open(ctx, key)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "remove it by hand") {
			t.Errorf("an object without metadata: %v", err)
		}
	}
}

// TestRefused: answers of servers become errors of depots, which name no secret.
func TestRefused(t *testing.T) {
	key := depot.InputKey(execution, "a")
	for _, c := range []struct {
		status int
		code   string
		want   error // nil is none of them
	}{
		{507, "XMinioStorageFull", depot.ErrFull},
		{400, "XMinioAdminBucketQuotaExceeded", depot.ErrFull},
		{403, "QuotaExceeded", depot.ErrFull},
		{404, "NoSuchKey", courier.ErrNotFound},
		{404, "NoSuchBucket", nil},
		{403, "AccessDenied", nil},
	} {
		b := serve(t, true, func(w http.ResponseWriter, r *http.Request, server http.Handler) { refuse(w, c.status, c.code) })
		_, open := b.Open(t.Context(), key)
		_, list := b.List(t.Context(), execution)
		for what, err := range map[string]error{"upload": upload(t.Context(), b, key, "x"), "open": open, "list": list, "remove": b.Remove(t.Context(), execution)} {
			if err == nil || errors.Is(err, depot.ErrFull) != (c.want == depot.ErrFull) || errors.Is(err, courier.ErrNotFound) != (c.want == courier.ErrNotFound) {
				t.Errorf("%s, %s: %v; want an error that matches %v", what, c.code, err, c.want)
			}
			if err != nil && (strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), execution) || !strings.Contains(err.Error(), "the server says "+c.code)) {
				t.Errorf("%s, %s: %v; want the key and the reason, and no secret", what, c.code, err)
			}
		}
	}
}

// TestEndOfContext ends the context within an upload in parts, and within a listing. The
// error is its cause, and nothing counts that is not whole.
func TestEndOfContext(t *testing.T) {
	cause := errors.New("the reason")
	var look atomic.Pointer[func(query url.Values)] // sees each request
	b := serve(t, true, func(w http.ResponseWriter, r *http.Request, server http.Handler) {
		if f := look.Load(); f != nil {
			(*f)(r.URL.Query())
		}
		server.ServeHTTP(w, r)
	})
	// until returns a context that ends with a request.
	until := func(at func(query url.Values) bool) context.Context {
		ctx, end := context.WithCancelCause(t.Context())
		t.Cleanup(func() { end(nil) })
		f := func(query url.Values) {
			if at(query) {
				end(cause)
			}
		}
		look.Store(&f)
		return ctx
	}
	ctx := until(func(query url.Values) bool { return query.Get("partNumber") == "2" })
	if err := upload(ctx, b, depot.ResultKey(execution, "large"), strings.Repeat("x", parts)); !errors.Is(err, cause) {
		t.Errorf("upload: %v", err)
	}
	if all, err := b.List(t.Context(), ""); err != nil || len(all) > 0 {
		t.Errorf("after the upload there are %v, %v", all, err)
	}
	for upload := range b.Client.ListIncompleteUploads(t.Context(), b.Name, "", true) {
		t.Errorf("parts are left: %+v", upload)
	}
	for i := range 1001 {
		put(t, b, depot.ResultKey(execution, fmt.Sprint(i)), "x")
	}
	for _, second := range []bool{false, true} {
		ctx := until(func(query url.Values) bool {
			return query.Has("list-type") && query.Has("continuation-token") == second
		})
		if all, err := b.List(ctx, execution); !errors.Is(err, cause) {
			t.Errorf("list: %d files, %v", len(all), err)
		}
	}
	ctx = until(func(query url.Values) bool { return query.Has("list-type") })
	if err := b.Remove(ctx, execution); !errors.Is(err, cause) {
		t.Errorf("remove: %v", err)
	}
}
