package ftp_test

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/fileserver"
	"github.com/courierhq/courier/steps/ftp"
)

// The host holds servers and credentials. Jobs name them by an id, such as
// "connection_id": "acme". The family is registered as ftp and as ftps.
func ExampleRegister() {
	var reg courier.Registry
	ftp.Register(&reg, ftp.Map{
		"acme": {Host: "ftp.acme.example", Username: "invoices", Password: "secret:acme"}, // explicit TLS
	})
	fmt.Println(len(reg.Keys()), reg.Keys()[0])
	// Output: 16 ftp.delete
}

// A step type of the host builds the configuration of a download, which it passes to
// [ftp.Download.Execute]. Defaults are those of definitions only: a value that the step
// needs is given here.
func ExampleDownloadConfig() {
	cfg := ftp.DownloadConfig{
		DownloadFields: fileserver.DownloadFields{
			ConnectionID: "acme", RemotePath: "/out", Pattern: "*.csv",
			IfExists: "overwrite", OnUnsafeName: "skip", Checksum: "none", AfterTransfer: "keep",
		},
		ParallelFiles: 2, Preserve: "times",
	}
	fmt.Println(cfg.ConnectionID, cfg.RemotePath, cfg.Pattern, cfg.ParallelFiles)
	// Output: acme /out *.csv 2
}
