package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/depot/depottest"
)

// TestProgram runs the program, and compares what it prints.
func TestProgram(t *testing.T) {
	var b bytes.Buffer
	if err := start(&Bucket{}, "", &b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"completed\na.csv        4 bytes", "b.csv        4 bytes", ".zip ", "removed: true, within a minute: true"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &b)
		}
	}
	if err := start(&Bucket{URL: "https://s3.example.com/files"}, filepath.Join(t.TempDir(), "none"), &b); err == nil || !strings.Contains(err.Error(), "-secret-file") {
		t.Errorf("without the file of the secret: %v", err)
	}
}

// serve starts a server and returns the depot in it.
func serve(t testing.TB, most int64) *Bucket {
	s := httptest.NewServer(&Server{Key: "key", Secret: "secret", Most: most, Page: 3})
	t.Cleanup(s.Close)
	return &Bucket{URL: s.URL + "/files", Key: "key", Secret: "secret", Client: s.Client()}
}

// TestDepot holds the bucket to the contract of depots.
func TestDepot(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	depottest.Run(t, depottest.Case{
		Open:    func(t testing.TB) depot.Depot { return serve(t, 0) },
		Limited: func(t testing.TB, most int64) depot.Depot { return serve(t, most) },
		MayLose: true,
	})
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

// TestRefused: a wrong secret is an error that names no secret.
func TestRefused(t *testing.T) {
	b := serve(t, 0)
	b.Secret = "hunter2"
	_, err := b.List(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "403") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("list: %v", err)
	}
}

// TestSignature compares with the first example of "Signature Calculations for the
// Authorization Header" in Amazon's reference of S3.
func TestSignature(t *testing.T) {
	b := &Bucket{Key: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	r, err := http.NewRequest("GET", "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Range", "bytes=0-9")
	b.sign(r, empty, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date," +
		"Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
	if got := r.Header.Get("Authorization"); got != want {
		t.Errorf("the signature is\n%s, want\n%s", got, want)
	}
}
