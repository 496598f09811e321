package dashboard

import (
	"context"
	"log/slog"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/depot"
)

// Options are the settings of a Handler. The zero value is the default.
type Options struct {
	// Access says who may see and do what, as for the API. The zero value refuses every visitor;
	// [access.Local] accepts users of this host who can read the log. [access.Policy].Origins is
	// only for the API: forms are accepted only from the pages themselves.
	Access access.Policy
	// Title is shown on every page, such as "Courier, production". Empty means "Courier".
	Title string
	// Depot has the files that clients upload and download over the API below the pages. Nil means
	// that the API accepts no files and has no results.
	Depot depot.Depot
	// URL is how the API is reached from outside, as in [httpapi.Options].
	URL string
	// Connections returns the partners that jobs transfer files with. Nil means that there
	// is no page of connections. It may be called by several goroutines.
	Connections func(ctx context.Context) ([]Connection, error)
	// LogoutURL is the address of a page of the service that ends the session, such as "/logout".
	// Each page that an authenticated visitor sees has a link to it. Empty means no link.
	LogoutURL string
	// Links returns links from the page of an execution to other systems, such as its trace. Nil
	// means none. It is called for each view of the page, and must be fast.
	Links func(x courier.Execution) []Link
	// Health returns what the page of health and GET v1/health of the API report about the store;
	// see [httpapi.Options].
	Health func(ctx context.Context) (any, error)
	// Log receives errors that visitors must not see, such as those of the store, with the incident
	// that the page names. Nil means no log.
	Log *slog.Logger
}

// A Connection is a partner with whom jobs exchange files, as the host describes it. It has no
// secrets.
type Connection struct {
	ID      string // as steps name it
	Type    string // such as "sftp"
	Address string // such as "sftp.acme.example:22"
	Owner   string // who is responsible for it
	Note    string // for people
}

// A Link leads from an execution to information about it in another system.
type Link struct {
	Text string // such as "Trace"
	// URL is absolute, with the scheme http or https, or relative to the page of the
	// execution. Other schemes are not shown as links.
	URL string
}
