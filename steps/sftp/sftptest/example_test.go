package sftptest_test

import (
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
	"github.com/courierhq/courier/steps/sftp"
	"github.com/courierhq/courier/steps/sftp/sftptest"
)

// In a program this is func TestPipeline.
func testPipeline(t *testing.T) {
	couriertest.Virtual(t, nil, func(t *testing.T, h *couriertest.Harness) {
		partner := sftptest.New(t, &sftptest.Options{Files: map[string]string{"out/a.csv": "1;2\n"}})
		sftp.Register(h.Registry, sftp.Map{"acme": partner.Connection()})
		partner.Inject(couriertest.Fault{Operation: "read", After: 2, Times: 1, Effect: couriertest.Drop})

		h.Run(h.Job(`{"name": "fetch", "failure_policy": "retry_step", "steps": [
			{"id": "get", "type": "sftp.download", "config": {"connection_id": "acme", "remote_path": "/out/a.csv"}}]}`), nil).
			RequireState(courier.Completed).
			RequireValue("get.size", 4)
	})
}

// A test of a pipeline against a partner whose connection breaks in the middle of
// a file. The retry after one second takes no time.
func ExampleNew() { _ = testPipeline }
