// Package steps registers the step types that come with Courier. Each family
// is a package of its own below this one, with a Register of its own for
// programs that need only some.
package steps

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/depot"
	"github.com/courierhq/courier/steps/azure"
	"github.com/courierhq/courier/steps/exec"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/ftp"
	"github.com/courierhq/courier/steps/httpreq"
	"github.com/courierhq/courier/steps/job"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// Options are the settings and resources that the step types need from the host
// application. The zero value registers only the families file and job, which need none.
type Options struct {
	// Connections are the SFTP servers that jobs may name. Nil leaves the sftp
	// family out.
	Connections sftp.Connections
	// FTPConnections are the FTP and FTPS servers that jobs may name. Nil leaves
	// the ftp family out.
	FTPConnections ftp.Connections
	// Keys are the OpenPGP keys that jobs may name. Nil leaves the pgp family
	// out.
	Keys pgp.Keys
	// Limits bound the work of the file family, such as the size of an unpacked archive.
	Limits file.Limits
	// HTTP says which addresses http.request may reach. Nil leaves the type out;
	// new(httpreq.Options) permits public addresses only.
	HTTP *httpreq.Options
	// Exec are the programs that exec.run may run. Nil leaves it out.
	Exec *exec.Options
	// Azure are the function apps that azure_function.execute may call. Nil
	// leaves it out.
	Azure *azure.Options
	// Depot has the input and output files of executions. Nil leaves the depot family
	// out.
	Depot depot.Depot
	// Retention says how long these files are kept; see [depot.Register]. Nil means the
	// defaults.
	Retention *depot.Retention
}

// Register adds all families to r. Like [courier.Register] it panics if a key
// is taken. A nil opt is the zero value.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	file.Register(r, &file.Options{Limits: opt.Limits})
	job.Register(r)
	if opt.Connections != nil {
		sftp.Register(r, opt.Connections)
	}
	if opt.FTPConnections != nil {
		ftp.Register(r, opt.FTPConnections)
	}
	if opt.Keys != nil {
		pgp.Register(r, opt.Keys)
	}
	if opt.HTTP != nil {
		httpreq.Register(r, opt.HTTP)
	}
	if opt.Exec != nil {
		exec.Register(r, opt.Exec)
	}
	if opt.Azure != nil {
		azure.Register(r, opt.Azure)
	}
	if opt.Depot != nil {
		depot.Register(r, opt.Depot, opt.Retention)
	}
}
