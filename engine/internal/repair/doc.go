// Package repair finds out how an execution that stands still goes on: which items of its
// loops failed and are executed again, what another version of its job, an earlier step
// or changed values mean for it, and which records its values follow from afterwards.
// The records of steps are never rewritten; a [History] reads them as they are in the
// present version.
//
// A pass is a return to an earlier position, or a repair of items. The targets of a repair are
// the failures that were recorded before the pass began, in the order of a walk; they stay the
// same however far the pass has come, so the counters need only the number of the present one.
// Each target is executed from the step that failed to the end of its item. A target in an item
// that was completed meanwhile, or has failed again, is left out.
//
// When the workspace is lost, the plan goes back to the last position from which no file of the
// workspace is needed. The files are those that completed steps before the position left and
// none of them removed. A step needs a file if its configuration, or the list of a loop around
// it, refers to the step that left it, or names its path, a directory above it, a pattern that
// matches it, or the workspace. The plan goes back to that step, or to the block around it,
// until nothing is needed. At the first step it becomes a restart. Failed items are looked at
// one by one, since the good items beside them must not be delivered again: if a step from the
// failed one on needs a file that the same item left, the item begins with its first step. Names
// that only a program knows cannot be seen; From of the resume says where to go then.
//
// Another version of the job maps old indexes to new ones. A step is found by its id, or by its
// index where no entry before it has moved. The list of an open loop and the condition of an
// open branch must be the same, since the position depends on them.
//
// What operators ask for failed and rescued items is a [courier.RepairPass]. One that accepts
// or skips items takes their failures out of those that are left, and executes nothing. One
// that has a rescue begin executes the item from its flow.rescue on: the record with which the
// item had failed counts as the one with which the rescue began. One for rescued items turns
// that around: the record with which the rescue began counts as a failure, until the item is
// over.
package repair
