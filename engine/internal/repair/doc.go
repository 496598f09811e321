// Package repair finds out how an execution that stands still goes on: which items of its
// loops failed and are executed again, what another version of its job, an earlier step
// or changed values mean for it, and which records its values follow from afterwards.
// The records of steps are never rewritten; a [History] reads them as they are in the
// present version.
//
// What operators ask for failed and rescued items is a [courier.RepairPass]. One that accepts
// or skips items takes their failures out of those that are left, and executes nothing. One
// that has a rescue begin executes the item from its flow.rescue on: the record with which the
// item had failed counts as the one with which the rescue began. One for rescued items turns
// that around: the record with which the rescue began counts as a failure, until the item is
// over.
package repair
