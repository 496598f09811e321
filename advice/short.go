package advice

// short has the sentences of causes for clients, who may not see what the causes are about.
var short = map[Kind]string{
	Held:        "It is held until it is released.",
	Paused:      "It is paused.",
	Chain:       "It is paused with others.",
	Failed:      "It has failed.",
	Dependency:  "It waits for something else to end.",
	Due:         "It is due later.",
	Backoff:     "A step has failed, and will be tried again later.",
	Request:     "A request for it has not taken effect yet.",
	NoWorker:    "No worker can execute it now.",
	Limit:       "A limit of executions is reached.",
	QueueBehind: "Other executions come before it.",
}

// Short returns a cause for the client of the execution, without what belongs to others. It does
// not say that a worker is lost, or which worker has the files, because that is a matter of the
// service.
func Short(c *Cause) Cause {
	kind := c.Kind
	if kind == Lost || kind == Workspace {
		kind = NoWorker
	}
	return Cause{Kind: kind, Text: short[kind], Until: c.Until, Do: "Wait, or cancel it."}
}
