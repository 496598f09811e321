package sftp

import (
	"context"
	"fmt"
	"strings"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/internal/remote"
	"github.com/courierhq/courier/internal/safename"
	"github.com/courierhq/courier/steps/fileserver"
)

// List is the step "sftp.list". It lists a directory, or the matches of a
// pattern below it.
type List struct {
	Connections Connections // must not be nil
}

var (
	_ courier.Step[fileserver.ListConfig, fileserver.ListOutput] = List{}
	_ courier.Validator[fileserver.ListConfig]                   = List{}
)

// Execute lists the directory. It changes nothing.
func (l List) Execute(ctx context.Context, job *courier.Context, cfg fileserver.ListConfig) (fileserver.ListOutput, error) {
	return remote.List(ctx, account(job, l.Connections, cfg.ConnectionID), cfg)
}

// Validate logs in and checks that the directory exists.
func (l List) Validate(ctx context.Context, job *courier.Context, cfg fileserver.ListConfig) error {
	return remote.ValidateList(ctx, account(job, l.Connections, cfg.ConnectionID), cfg)
}

// checkPath reports an error for a remote path that no server can understand.
func checkPath(field, p string) error {
	if strings.ContainsRune(p, 0) {
		return courier.Permanent(fmt.Errorf("%s: %s contains a NUL character", field, safename.Quote(p)))
	}
	return nil
}
