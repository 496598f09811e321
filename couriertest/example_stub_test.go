package couriertest_test

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// fetch is a pipeline that needs a server.
const fetch = `{"name": "fetch", "steps": [
	{"id": "get", "type": "sftp.download", "config": {"remote_path": "/out/a.csv"}},
	{"id": "pack", "type": "file.gzip", "config": {"source_path": "context:get.downloaded_file"}}]}`

// In a program this is func TestFetch.
func testFetch(t *testing.T) {
	h := couriertest.New(t, nil)
	download := h.Stub("sftp.download", couriertest.Returns(map[string]any{"downloaded_file": "a.csv"}))
	h.Stub("file.gzip", nil)
	h.Run(h.Job(fetch), nil).
		RequireState(courier.Completed).
		RequireTrace("0 sftp.download completed", "1 file.gzip completed")
	if got := download.Calls()[0].Config["remote_path"]; got != "/out/a.csv" {
		t.Errorf("downloaded %v", got)
	}
}

// A stub stands in for a step type that needs a server.
func ExampleHarness_Stub() { _ = testFetch }
