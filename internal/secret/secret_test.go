package secret_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/secret"
)

const value = "correct horse battery"

// TestResolve checks that a secret that was resolved is known, and what is said of one that can't
// be.
func TestResolve(t *testing.T) {
	var known secret.Redactor
	got, err := secret.Resolve(t.Context(), courier.SecretRequest{Name: "pass"}, func(context.Context, courier.SecretRequest) (string, error) { return value, nil }, &known)
	if err != nil || got != value || strings.Contains(known.Clean("it is "+value+"!"), value) {
		t.Errorf("%q, %v; shown %q", got, err, known.Clean("it is "+value+"!"))
	}
	_, err = secret.Resolve(t.Context(), courier.SecretRequest{Name: "pass"}, func(context.Context, courier.SecretRequest) (string, error) { return "", io.EOF }, &known)
	if e, ok := errors.AsType[*secret.Error](err); !ok || e.Name != "pass" || !errors.Is(err, io.EOF) || courier.IsPermanent(err) || courier.ClassOf(err) != courier.ReasonSecret {
		t.Errorf("a vault that fails: %v", err)
	}
	_, err = secret.Resolve(t.Context(), courier.SecretRequest{Name: "pass"}, nil, &known)
	if !courier.IsPermanent(err) || !strings.Contains(err.Error(), "engine.Options.Secrets") {
		t.Errorf("without a vault: %v", err)
	}
}

// TestText checks that no form of text shows a secret, also where the text is cut, and that an
// error stays what it is.
func TestText(t *testing.T) {
	var known secret.Redactor
	known.Add("pass", value)
	err := fmt.Errorf("login with %s: %w", value, io.EOF)
	clean := known.CleanError(err)
	if strings.Contains(clean.Error(), value) || !errors.Is(clean, io.EOF) {
		t.Errorf("%v", clean)
	}
	if plain := fmt.Errorf("x: %w", io.EOF); known.CleanError(plain) != plain {
		t.Error("an error without secrets is another one")
	}
	long := strings.Repeat("é\x00\xff", 9000) + value
	for n := range 40 {
		s := strings.Repeat("x", n) + value
		if got := known.Text(s, 20); strings.Contains(got, "horse") || strings.Contains(got, value[:10]) {
			t.Errorf("cut after 20 bytes: %q", got)
		}
	}
	if got := known.Message(errors.New(long)); !utf8.ValidString(got) || strings.ContainsRune(got, 0) || len(got) > 40<<10 || !strings.HasSuffix(got, "... (cut)") {
		t.Errorf("%d bytes, valid %v", len(got), utf8.ValidString(got))
	}
	var none secret.Redactor
	if none.Clean(value) != value {
		t.Error("a redactor without secrets removes something")
	}
}
