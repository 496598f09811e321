// Package repair finds out how an execution that stands still goes on: which items of its
// loops failed and are executed again, what another version of its job, an earlier step
// or changed values mean for it, and which records its values follow from afterwards.
// The records of steps are never rewritten; a [History] reads them as they are in the
// present version.
package repair
