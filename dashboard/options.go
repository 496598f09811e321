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
	// Access says who may see and do what, as for the API; the zero value lets nobody in, and
	// [access.Local] the user of this host who can read the log. [access.Policy].Origins is for
	// the API alone: forms are accepted from the pages themselves only.
	Access access.Policy
	// Title is on every page, such as "Courier, production". Empty means "Courier".
	Title string
	// Depot has the files that clients upload and download over the API below the pages. Nil
	// means neither.
	Depot depot.Depot
	// URL is how that API is reached from outside, as in [httpapi.Options].
	URL string
	// Connections returns the partners that jobs transfer files with. Nil means that there
	// is no page of connections. It may be called by several goroutines.
	Connections func(ctx context.Context) ([]Connection, error)
	// LogoutURL is where visitors log out: the address of a page of the service, such as
	// "/logout", which ends the session. Each page that a known visitor sees has a link to it.
	// Empty means no link.
	LogoutURL string
	// Links returns what the page of an execution links to outside, such as its trace. Nil
	// means nothing. It is called for each view of the page, and must be fast.
	Links func(x courier.Execution) []Link
	// Health returns what the page of health and GET v1/health of the API say of the store;
	// see [httpapi.Options].
	Health func(ctx context.Context) (any, error)
	// Log receives errors that a visitor is not told, such as those of the store, under the
	// incident that the page names. Nil means none.
	Log *slog.Logger
}

// A Connection is a partner that jobs transfer files with, as the host knows it. It has no
// secrets.
type Connection struct {
	ID      string // as steps name it
	Type    string // such as "sftp"
	Address string // such as "sftp.acme.example:22"
	Owner   string // who is responsible for it
	Note    string // for people
}

// A Link leads from an execution to what is known of it elsewhere.
type Link struct {
	Text string // such as "Trace"
	// URL is absolute, with the scheme http or https, or relative to the page of the
	// execution. Other schemes are not shown as links.
	URL string
}
