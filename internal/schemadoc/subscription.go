package schemadoc

import (
	"github.com/courierhq/courier"
	"github.com/courierhq/courier/notify"
)

// events are the types of events that can be subscribed to.
var events = []courier.EventType{
	courier.EventJobStarted, courier.EventJobCompleted, courier.EventJobFailed, courier.EventJobPaused, courier.EventJobResumed,
	courier.EventJobCancelled, courier.EventJobTakenOver, courier.EventJobOverdue, courier.EventStepStarted, courier.EventStepCompleted,
	courier.EventStepFailed, courier.EventStepSkipped, courier.EventStep,
	courier.EventChainStarted, courier.EventChainCompleted, courier.EventChainFailed,
	courier.EventFileDueSoon, courier.EventFileArrived, courier.EventFileIncomplete, courier.EventFileMissing, courier.EventFileLate, courier.EventFileUnexpected,
}

// The most that a subscription may have.
const (
	maxNames   = 1000
	maxSubject = 150
)

// subscription returns the schema of subscriptions.
func (b *builder) subscription() Schema {
	wanted := list(enum("", nil, events...), "The types of events that are wanted.")
	wanted["minItems"], wanted["uniqueItems"] = 1, true
	s := Object(Schema{
		"name":           name("The name of the subscription."),
		"kind":           enum("How notifications are delivered.", nil, notify.KindFunc, notify.KindWebhook, notify.KindJob, notify.KindEmail),
		"events":         wanted,
		"jobs":           named("The jobs whose events are wanted. Without jobs and chains it is those of all.", b.names.Jobs),
		"chains":         named("The chains whose events are wanted, and those of their members.", b.names.Chains),
		"expectations":   expectations(),
		"func":           needed("The name of a function of the host application."),
		"webhook":        b.orNull(part[notify.WebhookTarget](b, "WebhookTarget", b.webhookTarget)),
		"job":            b.orNull(part[notify.JobTarget](b, "JobTarget", b.jobTarget)),
		"email":          b.orNull(part[notify.EmailTarget](b, "EmailTarget", emailTarget)),
		"window_seconds": b.orNull(seconds("Of each type of event of each job at most one notification is sent within it; 0 sends all. Default: 1800 for email, otherwise 0.")),
		"disabled":       boolean("Events are not kept for the subscription."),
		"disabled_at":    reports("string"),
		"reason":         reports("string"),
	}, "name", "kind", "events")
	targets := []string{"func", "webhook", "job", "email"}
	var rules []Schema
	for i, kind := range targets {
		then := forbidden(append(append([]string{}, targets[:i]...), targets[i+1:]...)...)
		then["required"] = []string{kind}
		rules = append(rules, when(has("kind", kind), then))
	}
	s["allOf"] = append(rules, when(has("kind", "job"), AnyOf(
		Schema{"properties": Schema{"events": Schema{"items": Schema{"enum": events[len(events)-6:]}}}},
		Schema{"required": []string{"jobs"}, "properties": Schema{"jobs": Schema{"minItems": 1}}},
		Schema{"required": []string{"chains"}, "properties": Schema{"chains": Schema{"minItems": 1}}},
	)))
	return s
}

// named is the schema of a list of names.
func named(doc string, names []string) Schema {
	s := list(known("", names), doc)
	s["maxItems"], s["uniqueItems"] = maxNames, true
	return s
}

// expectations is the schema of a list of names of expectations.
func expectations() Schema {
	s := list(name(""), "The expectations whose events are wanted. Without it those of all.")
	s["maxItems"], s["uniqueItems"] = maxNames, true
	return s
}

func (b *builder) webhookTarget() Schema {
	secrets := list(Schema{"type": "string", "pattern": "^secret:."}, "Sign the requests; each is a reference secret:NAME.")
	secrets["minItems"] = 1
	url := text("The URL of the receiver, or secret:NAME.")
	if b.types == nil { // the HTTP API answers with another text where the caller may not see the URL
		url["pattern"] = `^([hH][tT][tT][pP][sS]?://.|secret:.)`
	}
	return Object(Schema{
		"url":     url,
		"secrets": secrets,
		"headers": Schema{"type": "object", "additionalProperties": Schema{"type": "string"}, "description": "Sent in addition; a value can be secret:NAME."},
	}, "url", "secrets")
}

func (b *builder) jobTarget() Schema {
	return Object(Schema{
		"name":     known("The name of the job that is started.", b.names.Jobs),
		"params":   described(forbidden("event"), "Parameters besides event.", nil),
		"priority": priority(),
	}, "name")
}

func emailTarget() Schema {
	to := list(needed("An address such as ops@example.com or Operations <ops@example.com>."), "The receivers.")
	to["minItems"] = 1
	subject := Schema{"type": "string", "maxLength": maxSubject, "pattern": plainText}
	return Object(Schema{"to": to, "subject": described(subject, "Begins the subject of the messages.", "Courier")}, "to")
}
