package sftptest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/sftp/sftptest"
)

type object = map[string]any

// roundTrip downloads a file and uploads it again.
var roundTrip = courier.Job{
	Name: "round-trip", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep},
	Steps: []courier.StepSpec{
		{ID: "get", Type: "sftp.download", Config: object{"connection_id": "acme", "remote_path": "/out/a.csv"}},
		{ID: "put", Type: "sftp.upload", Config: object{
			"connection_id": "acme", "local_path": "context:get.downloaded_file", "remote_path": "/in/b.csv",
		}},
	},
}

func content() string { return strings.Repeat("0123456789abcdef", 8<<10) } // 128 KiB

func begin(t *testing.T, h *couriertest.Harness) *sftptest.Server {
	t.Helper()
	s := sftptest.New(t, &sftptest.Options{Files: map[string]string{"out/a.csv": content(), "in/.keep": ""}})
	sftp.Register(h.Registry, sftp.Map{"acme": s.Connection()})
	return s
}

// TestFaults: each effect at each kind of operation fails an attempt, the next one
// completes, and the partner never sees half a file.
func TestFaults(t *testing.T) {
	for _, f := range []couriertest.Fault{
		{Operation: "read", After: 64 << 10, Effect: couriertest.Drop},
		{Operation: "read", After: 64 << 10, Effect: couriertest.Stall},
		{Operation: "write", After: 64 << 10, Effect: couriertest.DiskFull},
		{Operation: "write", Path: "/in/*", Effect: couriertest.Drop},
		{Operation: "rename", Effect: couriertest.Fail},
		{Operation: "open", Path: "/out/*", Effect: couriertest.Stall},
		{Operation: "stat", Effect: couriertest.Drop},
	} {
		f.Times = 1
		t.Run(f.Operation+" "+string(f.Effect), func(t *testing.T) {
			couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
				s := begin(t, h)
				s.Inject(f)
				h.Run(roundTrip, nil).RequireState(courier.Completed)
				got, err := os.ReadFile(filepath.Join(s.Dir, "in", "b.csv"))
				if err != nil || string(got) != content() {
					t.Errorf("the partner has %d bytes (%v), want %d", len(got), err, len(content()))
				}
				if e := s.Next(f.Operation, f.Path, 1<<40); e != "" {
					t.Errorf("the fault did not occur: %s is left", e)
				}
			})
		})
	}
}

func TestDenied(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		s := begin(t, h)
		s.Inject(couriertest.Fault{Operation: "open", Path: "/in/*", Effect: couriertest.Deny})
		h.Run(roundTrip, nil).RequireState(courier.Failed).RequireError("permission denied")
		s.Repair()
		if len(s.Operations()) == 0 {
			t.Error("no operations were noted")
		}
	})
}

// TestTCP: over a real socket, with a listing of hostile names.
func TestTCP(t *testing.T) {
	h := couriertest.New(t, nil)
	s := sftptest.New(t, &sftptest.Options{TCP: true, Names: func(dir string, names []string) []string {
		return append(names, sftptest.HostileNames()...)
	}})
	sftp.Register(h.Registry, sftp.Map{"acme": s.Connection()})
	start := time.Now()
	r := h.Run(h.Job(`{"name": "list", "steps": [{"id": "list", "type": "sftp.list", "config": {"connection_id": "acme", "remote_path": "/"}}]}`), nil)
	r.RequireState(courier.Completed).RequireValue("list.file_count", 0)
	if n := len(sftptest.HostileNames()); n < 200 {
		t.Errorf("%d hostile names", n)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}
