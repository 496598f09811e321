package courier

import "strings"

// reasonWords are the reasons that are not said by their names with spaces in them.
var reasonWords = map[Reason]string{
	ReasonError: "an error", ReasonTimeout: "it took too long", ReasonStalled: "it made no progress", ReasonPanic: "the program has a mistake",
	ReasonCrashed: "its process has ended", ReasonConfig: "its configuration can't be used", ReasonExecution: "the execution took too long",
	ReasonWorkerLost: "its workers were lost", ReasonFiles: "files are missing", ReasonDefinition: "the definition can't be executed",
	ReasonCancelled: "it was cancelled", ReasonOperator: "somebody has skipped it", ReasonWithoutFiles: "somebody has gone on without its files",
	ReasonItems: "some items failed", ReasonRescued: "some items were rescued", ReasonExpired: "it was not begun in time", ReasonStore: "the store did not keep it",
	ReasonMaxDuration: "the longest duration", ReasonExpectedBy: "the time by which it is expected",
	ReasonConnection: "no connection", ReasonLogin: "login refused", ReasonNotFound: "it is not there", ReasonExists: "something is in the way",
	ReasonPermission: "access denied", ReasonQuota: "the quota is used up", ReasonSpace: "the disk is full", ReasonIntegrity: "damaged content",
	ReasonInvalid: "content or a name that can't be used", ReasonSecret: "no secret",
}

// Words returns the reason in words, such as "some items failed" for "items_failed". For a
// reason that is not one of the constants it returns the text with spaces in place of
// underscores.
func (r Reason) Words() string {
	if words, ok := reasonWords[r]; ok {
		return words
	}
	return strings.ReplaceAll(string(r), "_", " ")
}
