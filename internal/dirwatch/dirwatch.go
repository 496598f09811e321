// Package dirwatch watches a directory for changes, as far as the operating system
// reports them.
//
// Changes that other machines make on network storage are not reported, and many
// changes at once may be reported as one: a caller lists the directory from time
// to time as well.
package dirwatch

import "time"

// gather is how long changes are gathered before they are reported.
const gather = 500 * time.Millisecond
