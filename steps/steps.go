// Package steps registers the step types that come with Courier. Each family
// is a package of its own below this one, with a Register of its own for
// programs that need only some.
package steps

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/file"
	"github.com/courierhq/courier/steps/pgp"
	"github.com/courierhq/courier/steps/sftp"
)

// Options are what the step types need from the host application. The zero
// value registers only what needs nothing.
type Options struct {
	// Connections are the servers that jobs may name. Nil leaves the sftp
	// family out.
	Connections sftp.Connections
	// Keys are the OpenPGP keys that jobs may name. Nil leaves the pgp family
	// out.
	Keys pgp.Keys
	// Limits bound what the file family takes on, such as the size of an
	// unpacked archive.
	Limits file.Limits
}

// Register adds all families to r. Like [courier.Register] it panics if a key
// is taken. A nil opt is the zero value.
func Register(r *courier.Registry, opt *Options) {
	if opt == nil {
		opt = &Options{}
	}
	file.Register(r, &file.Options{Limits: opt.Limits})
	if opt.Connections != nil {
		sftp.Register(r, opt.Connections)
	}
	if opt.Keys != nil {
		pgp.Register(r, opt.Keys)
	}
}
