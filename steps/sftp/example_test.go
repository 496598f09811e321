package sftp_test

import (
	"fmt"

	"github.com/courierhq/courier/steps/fileserver"
	"github.com/courierhq/courier/steps/sftp"
)

// A step type of the host builds the configuration of an upload, which it passes to
// [sftp.Upload.Execute]. Defaults are those of definitions only: a value that the step
// needs is given here.
func ExampleUploadConfig() {
	cfg := sftp.UploadConfig{
		UploadFields: fileserver.UploadFields{
			ConnectionID: "acme", LocalPath: "invoices/*.csv", RemotePath: "/in/",
			IfExists: "overwrite", Checksum: "sidecar", AfterTransfer: "keep",
		},
		Preserve: "times",
	}
	fmt.Println(cfg.ConnectionID, cfg.RemotePath, cfg.Checksum, cfg.Preserve)
	// Output: acme /in/ sidecar times
}
