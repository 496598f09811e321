package steps_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/internal/test/ftpserver"
	"github.com/courierhq/courier/internal/test/sftpserver"
	"github.com/courierhq/courier/steps"
)

// withAlias is a job with the other name of a field, and with a number as text. %[1]s is the id of a connection, %[2]s
// that of a key, %[3]s the directory that stands for the root of the host.
const withAlias = `{"name": "with-alias", "steps": [
	{"type": "sftp.list", "config": { "connection_id": "%[1]s", "remote_path": "/incoming" }},
	{"type": "flow.foreach", "config": { "source": "context:0.file_list" }},
	{"type": "sftp.download", "config": { "connection_id": "%[1]s", "remote_path": "context:loop.current_item.name" }},
	{"type": "flow.if", "config": { "left": "context:loop.current_item.size", "operator": "greater_than", "right": "1048576" }},
	{"type": "pgp.encrypt", "config": { "input_path": "context:2.downloaded_file", "recipient_key_ids": ["%[2]s"] }},
	{"type": "flow.else"},
	{"type": "file.copy", "config": { "source_path": "context:2.downloaded_file", "destination_path": "%[3]s/archive/" }},
	{"type": "flow.end", "config": {}},
	{"type": "flow.end", "config": {}},
	{"type": "file.delete", "config": { "path": "%[3]s/staging/*" }}
]}`

// TestAliasOfAField: a job with the other name of a field is saved under the field's own name,
// and runs against a server whose logins begin in /incoming. The directories of the host are
// below a root of the test.
func TestAliasOfAField(t *testing.T) {
	s := newSiteWith(t, sftpserver.Options{Home: "/incoming"}, ftpserver.Options{})
	s.write("sftp/incoming/small.csv", "1;2\n")
	s.write("sftp/incoming/large.csv", strings.Repeat("1;2\n", 300_000))
	s.write("B/archive/kept", "kept")
	s.write("B/staging/left.csv", "left")

	h := couriertest.New(t, &engine.Options{Roots: []string{s.path("B")}})
	steps.Register(h.Registry, s.options)
	defined, err := h.Engine.Jobs().Define(t.Context(), h.Job(fmt.Sprintf(withAlias, "sftp", "us", "")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg := defined.Job.Steps[4].Config; cfg["source_path"] != "context:2.downloaded_file" || len(cfg) != 2 {
		t.Errorf("saved: %v; want source_path", cfg)
	}

	h.Run(h.Job(fmt.Sprintf(withAlias, "sftp", "us", filepath.ToSlash(s.path("B")))), nil).RequireState(courier.Completed)
	if got := s.read("B/archive/small.csv"); got != "1;2\n" {
		t.Errorf("archived: %q", got)
	}
	if _, err := os.Stat(s.path("B/archive/large.csv")); err == nil {
		t.Error("the large file is archived, and not encrypted")
	}
	if left := s.files("B/staging"); len(left) > 0 {
		t.Errorf("left in staging: %q", left)
	}
}
