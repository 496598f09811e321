package courier

import "strings"

// reasonWords are the reasons that are not said by their names with spaces in them.
var reasonWords = map[Reason]string{
	ReasonError: "an error", ReasonTimeout: "it took too long", ReasonStalled: "it made no progress", ReasonPanic: "an error in the program",
	ReasonCrashed: "its process died", ReasonConfig: "its configuration is invalid", ReasonExecution: "the execution took too long",
	ReasonWorkerLost: "its workers were lost", ReasonFiles: "files are missing", ReasonDefinition: "the definition can't be executed",
	ReasonCancelled: "it was cancelled", ReasonOperator: "an operator skipped it", ReasonWithoutFiles: "an operator continued without its files",
	ReasonItems: "some items failed", ReasonRescued: "some items were rescued", ReasonExpired: "it did not start in time", ReasonStore: "the store did not save it",
	ReasonMaxDuration: "it exceeded its maximum duration", ReasonExpectedBy: "it is later than expected",
	ReasonConnection: "no connection", ReasonLogin: "login refused", ReasonNotFound: "not found", ReasonExists: "it already exists",
	ReasonPermission: "access denied", ReasonQuota: "the quota is used up", ReasonSpace: "the disk is full", ReasonIntegrity: "damaged content",
	ReasonInvalid: "invalid content or name", ReasonSecret: "no secret",
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
