package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine/internal/core"
	"github.com/courierhq/courier/internal/secret"
)

// source has secrets, of which some can't be had now, and some are refused for good.
func source(_ context.Context, q courier.SecretRequest) (string, error) {
	switch q.Name {
	case "away":
		return "", errors.New("the vault is away")
	case "refused":
		return "", courier.Permanent(errors.New("it may not be used"))
	}
	return "value of " + q.Name, nil
}

func secrets(most int) *core.Secrets {
	return &core.Secrets{Source: source, Most: most, Redactor: new(secret.Redactor)}
}

func names(uses []courier.SecretUse) string {
	var list []string
	for _, u := range uses {
		if list = append(list, u.Name); u.Refused {
			list[len(list)-1] += " (refused)"
		}
	}
	return strings.Join(list, ", ")
}

// TestResolve checks that a secret which was given to a step counts as used, once, and is kept
// out of text, and that one beyond the limit is not given.
func TestResolve(t *testing.T) {
	s := secrets(2)
	for _, name := range []string{"a", "b", "a"} {
		if v, err := s.Resolve(t.Context(), courier.SecretRequest{Name: name, Step: 1}); err != nil || v != "value of "+name {
			t.Fatalf("%q, %v", v, err)
		}
	}
	if names(s.Used()) != "a, b" || strings.Contains(s.Clean("it says: value of a"), "value of a") {
		t.Errorf("used %s; shown %q", names(s.Used()), s.Clean("it says: value of a"))
	}
	v, err := s.Resolve(t.Context(), courier.SecretRequest{Name: "c"})
	if v != "" || !courier.IsPermanent(err) || !strings.Contains(err.Error(), "MaxSecrets") || names(s.Used()) != "a, b" {
		t.Errorf("beyond the limit: %q, %v, used %s", v, err, names(s.Used()))
	}
	long := strings.Repeat("n", 1001)
	if _, err = secrets(9).Resolve(t.Context(), courier.SecretRequest{Name: long}); err == nil || strings.Contains(err.Error(), long) {
		t.Errorf("a name of 1,001 bytes: %v", err)
	}
	for name, permanent := range map[string]bool{"away": false, "refused": true} {
		_, err := s.Resolve(t.Context(), courier.SecretRequest{Name: name})
		if se, ok := errors.AsType[*secret.Error](err); !ok || se.Name != name || courier.IsPermanent(err) != permanent {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecall checks that the secrets which an execution has used before are asked for before
// anything is shown, and what becomes of those that can't be had.
func TestRecall(t *testing.T) {
	use := func(name string) courier.SecretUse { return courier.SecretUse{Name: name, Step: 3} }
	var refused []string
	note := func(u courier.SecretUse, err error) { refused = append(refused, fmt.Sprint(u.Name, ": ", err)) }

	s := secrets(9)
	s.Claimed([]courier.SecretUse{use("a"), use("refused")})
	s.Lost(use("b"))       // which it may have used
	s.Lost(use("refused")) // which it has used
	if s.Known() {
		t.Error("nothing was asked for, and all is known")
	}
	if err := s.Recall(t.Context(), courier.SecretRequest{}, note); err != nil {
		t.Fatal(err)
	}
	if !s.Known() || names(s.Used()) != "a, refused (refused), b" || len(refused) != 1 || strings.Contains(s.Clean("value of b"), "value of b") {
		t.Errorf("known %v, used %s, refused %q", s.Known(), names(s.Used()), refused)
	}

	s = secrets(9)
	s.Claimed([]courier.SecretUse{use("a"), use("away")})
	if err := s.Recall(t.Context(), courier.SecretRequest{}, note); err == nil || !strings.Contains(err.Error(), "in step 3") || courier.IsPermanent(err) || s.Known() {
		t.Errorf("one is away: %v, known %v", err, s.Known())
	}

	s = &core.Secrets{Redactor: new(secret.Redactor)}
	s.Claimed([]courier.SecretUse{use("a")})
	if err := s.Recall(t.Context(), courier.SecretRequest{}, note); err == nil || courier.IsPermanent(err) || !strings.Contains(err.Error(), "engine.Options.Secrets") {
		t.Errorf("a worker without secrets: %v", err)
	}
}
