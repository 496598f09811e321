package ftp_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/steprig"
	"github.com/courierhq/courier/steps/ftp"
)

// TestLister lists a directory, with the secrets of its job.
func TestLister(t *testing.T) {
	r := newRig(t, ftpserver.Options{})
	r.conn.Password = "secret:acme"
	l := ftp.NewLister(connections(func() ftp.Connection { return r.conn }))
	job := courier.NewContext(courier.ContextConfig{
		Log: slog.New(slog.NewTextHandler(&r.Log, nil)),
		Secrets: func(_ context.Context, q courier.SecretRequest) (string, error) {
			if q.Name != "acme" {
				return "", errors.New("no such secret")
			}
			return steprig.Password, nil
		},
	})
	defer job.Close()
	dir := "in"
	r.Put("in/a.csv", []byte("12345"))
	r.Put("in/b", nil)
	r.Put("in/sub/c", []byte("1"))
	r.Put("in/x.courier-tmp-1", []byte("1"))
	r.Put("in/bad\x01name", []byte("1"))
	for range 2 {
		got, err := l.List(t.Context(), job, courier.Directory{Connection: steprig.Partner, Path: dir})
		if err != nil || len(got.Files) != 2 {
			t.Fatalf("listed %+v, %v", got, err)
		}
		if f := got.Files[0]; f.Name != "a.csv" || f.Path != dir+"/a.csv" || f.Size != 5 || time.Since(f.Modified) > time.Hour {
			t.Errorf("file %+v", f)
		}
		if got.Refused != 1 || got.Example == "" {
			t.Errorf("%d refused: %q", got.Refused, got.Example)
		}
	}
	if _, err := l.List(t.Context(), job, courier.Directory{Connection: steprig.Partner, Path: dir + "/missing"}); err == nil || errors.Is(err, courier.ErrLogin) || !strings.Contains(err.Error(), "missing") {
		t.Errorf("a directory that is not there: %v", err)
	}
	if l.Least() != 30*time.Second {
		t.Errorf("least %v", l.Least())
	}
}

// TestListerRefused tells a refused login from everything else.
func TestListerRefused(t *testing.T) {
	r := newRig(t, ftpserver.Options{})
	r.Put("in/a", nil)
	const wrong = "wrong horse"
	r.conn.Password = wrong
	job := courier.NewContext(courier.ContextConfig{})
	defer job.Close()
	l := ftp.NewLister(connections(func() ftp.Connection { return r.conn }))
	_, err := l.List(t.Context(), job, courier.Directory{Connection: steprig.Partner, Path: "in"})
	if !errors.Is(err, courier.ErrLogin) || strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), courier.ErrLogin.Error()) {
		t.Errorf("a wrong password: %v", err)
	}
	_, err = l.List(t.Context(), job, courier.Directory{Connection: "unknown", Path: "in"})
	if !errors.Is(err, courier.ErrNotFound) || errors.Is(err, courier.ErrLogin) {
		t.Errorf("an unknown connection: %v", err)
	}
	for _, tt := range []struct {
		target courier.Directory
		want   string
	}{
		{courier.Directory{Path: "in"}, "connection_id: it is missing"},
		{courier.Directory{Connection: steprig.Partner}, "path: it is missing"},
		{courier.Directory{Connection: steprig.Partner, Path: "a\x00b"}, "control character"},
	} {
		if err := l.Check(tt.target); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("check %+v: %v, want %q", tt.target, err, tt.want)
		}
		if _, err := l.List(t.Context(), job, tt.target); err == nil {
			t.Errorf("listed %+v", tt.target)
		}
	}
	if err := errors.Join(l.Check(courier.Directory{Connection: steprig.Partner, Path: "in"}), l.CheckConnection(t.Context(), steprig.Partner)); err != nil {
		t.Error(err)
	}
	if err := l.CheckConnection(t.Context(), "unknown"); !errors.Is(err, courier.ErrNotFound) {
		t.Errorf("an unknown connection: %v", err)
	}
}
