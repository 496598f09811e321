package demo

import (
	"strings"
	"time"

	"github.com/courierhq/courier"
)

// Hostile are names that outsiders may give: markup, characters that change the direction of the
// text beside them, and a very long name.
var Hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "invoice\u202efdp.exe", "☃ 🚚 日本語 עברית",
	"a?b#c&d=e/../%2e%2e%2f", strings.Repeat("unbroken", 16), "{{.Service}} `${1}` &lt;b&gt;",
}

// globex are the jobs that fetch files from Globex, which has changed its password.
var globex = []string{"orders-globex", "prices-globex", "stock-globex"}

// endless is a message without a place to break it.
var endless = "the partner answers: " + strings.Repeat("0123456789abcdef", 512)

// step returns a step of the type demo.work.
func step(id string, config map[string]any) courier.StepSpec {
	return courier.StepSpec{ID: id, Type: "demo.work", Config: config}
}

// jobs returns the definitions. The first versions of invoices differ from the last, so that there
// are versions to compare.
func jobs() []courier.Job {
	list := []courier.Job{invoices(1), invoices(2), invoices(3), reconcile(), loops(), nested(), {
		Name: "backup", Queue: "default", LimitKeys: []string{"archive"}, Steps: []courier.StepSpec{
			step("copy", map[string]any{"seconds": 1800, "bytes": 12_884_901_888, "subject": "ledger-2026-11.tar.zst"}),
		},
	}, {
		Name: "archive", Limit: 1, LimitKeys: []string{"archive"}, Params: map[string]any{"seconds": 0, "fail": ""}, Steps: []courier.StepSpec{
			step("pack", map[string]any{"seconds": "context:params.seconds", "bytes": 734_003_200, "subject": "archive.zip", "fail": "context:params.fail"}),
		},
	}, {
		Name: "settlement", DependsOn: []courier.JobDependency{{Job: "reconcile"}}, Steps: []courier.StepSpec{step("settle", nil)},
	}, {
		Name: "statements", Queue: "night", Steps: []courier.StepSpec{step("print", nil)},
	}, {
		Name: "notes", Steps: []courier.StepSpec{step("write", map[string]any{"keep": "notes.txt"}), step("print", map[string]any{"seconds": 7200, "subject": "notes.txt"})},
	}, {
		Name: "knock", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, BackoffBase: new(time.Hour), BackoffMax: new(time.Hour)},
		Steps: []courier.StepSpec{step("", nil), step("ask", map[string]any{"fail": "connection acme-sftp: the server is busy (421)", "passing": true})},
	}}
	for _, name := range globex {
		list = append(list, courier.Job{Name: name, Params: map[string]any{"answer": ""}, Steps: []courier.StepSpec{
			{ID: "fetch", Type: "demo.fetch", Config: map[string]any{"connection_id": "globex-ftps", "directory": "/out/" + name, "files": []any{name + ".csv"}, "fail": "context:params.answer", "class": "login"}},
			step("book", map[string]any{"subject": name + ".csv"}),
		}})
	}
	for _, name := range Hostile {
		list = append(list, courier.Job{Name: name, Params: map[string]any{"text": ""}, Steps: []courier.StepSpec{
			{ID: "say", Name: name, Type: "demo.work", Config: map[string]any{"subject": "context:params.text", "fail": name + " " + endless[:200]}},
		}})
	}
	return list
}

// invoices fetches, checks and sends files, with a branch, a loop and typed parameters.
func invoices(version int) courier.Job {
	j := courier.Job{
		Name: "invoices", ExpectedBy: "07:30 Europe/Berlin", MaxDuration: time.Hour, Result: "context:list.count", LimitKeys: []string{"context:params.partner"},
		Params: map[string]any{
			"partner":  courier.Param{Type: "text", Enum: []any{"acme", "globex", "initech"}, Default: "acme", Doc: "Whose invoices are fetched."},
			"day":      courier.Param{Type: "date", Default: "2026-11-23", Doc: "The day of the invoices."},
			"files":    courier.Param{Type: "list", Default: []any{"inv-0423.xml", "inv-0424.xml", "inv-0425.xml", "inv-0426.xml"}, Doc: "What the server has."},
			"broken":   courier.Param{Type: "text", Default: "none", Doc: "The file that does not pass the check."},
			"answer":   courier.Param{Type: "text", Doc: "What the server answers with in place of files."},
			"seconds":  courier.Param{Type: "number", Default: 0.01, Min: 0, Max: 3600, Doc: "How long a file takes."},
			"notify":   courier.Param{Type: "boolean", Default: true},
			"password": courier.Param{Type: "text", Secret: true, Doc: "The secret with the password of the partner."},
		},
		Steps: []courier.StepSpec{
			{ID: "list", Name: "Fetch what is new", Type: "demo.fetch", Config: map[string]any{"connection_id": "acme-sftp", "directory": "/out/invoices", "pattern": "inv-*.xml", "files": "context:params.files", "fail": "context:params.answer"}},
			{Type: "flow.if", Config: map[string]any{"left": "context:list.count", "operator": "greater_than", "right": 0}},
			{Type: "flow.foreach", Config: map[string]any{"source": "context:list.file_list", "on_item_failure": "continue"}},
			{ID: "check", Type: "demo.work", Config: map[string]any{"subject": "context:loop.current_item", "seconds": "context:params.seconds", "bytes": 48_213, "fail": "line 214: the sum of the lines is 1,204.50 EUR, and the total says 1,240.50 EUR", "only": "context:params.broken"}},
			{ID: "send", Type: "demo.send", Config: map[string]any{"connection_id": "ledger", "path": "/in/${context:loop.current_item}"}},
			{Type: "flow.end"},
			{Type: "flow.else"},
			step("nothing", map[string]any{"subject": "no invoices"}),
			{Type: "flow.end"},
			{ID: "report", Type: "demo.work", Name: "Tell accounting", FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}, Config: map[string]any{"subject": "context:list.count", "seconds": 0.02}},
		},
	}
	if version < 3 {
		j.Steps[9].FailurePolicy = courier.FailurePolicy{}
	}
	if version < 2 {
		j.Steps[0].Config["pattern"] = "*"
		j.Steps = append(j.Steps, step("cleanup", map[string]any{"subject": "/tmp"}))
	}
	return j
}

// reconcile has a loop of many items, some of which fail.
func reconcile() courier.Job {
	return courier.Job{Name: "reconcile", Params: map[string]any{"items": nil, "bad": 0}, Steps: []courier.StepSpec{
		step("load", map[string]any{"subject": "ledger", "seconds": 0.05}),
		{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items", "on_item_failure": "continue"}},
		step("match", map[string]any{"subject": "context:loop.current_item", "fail": "no booking has this number", "only": "context:params.bad"}),
		{Type: "flow.end"},
		step("close", nil),
	}}
}

// loops has twenty-six loops, each over the same items.
func loops() courier.Job {
	j := courier.Job{Name: "loops", Params: map[string]any{"items": nil}}
	for range 26 {
		j.Steps = append(j.Steps, courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": "context:params.items"}}, step("", nil), courier.StepSpec{Type: "flow.end"})
	}
	return j
}

// nested has many nested blocks.
func nested() courier.Job {
	j := courier.Job{Name: "nested", Steps: []courier.StepSpec{step("start", nil)}}
	for range 3 {
		j.Steps = append(j.Steps, courier.StepSpec{Type: "flow.foreach", Config: map[string]any{"source": []any{"north", "south", "east"}}})
	}
	j.Steps = append(j.Steps,
		courier.StepSpec{Type: "flow.if", Config: map[string]any{"left": "context:loop.current_item", "operator": "equals", "right": "south"}},
		step("south", nil), courier.StepSpec{Type: "flow.else"}, step("other", map[string]any{"seconds": 0.01}), courier.StepSpec{Type: "flow.end"})
	for range 3 {
		j.Steps = append(j.Steps, courier.StepSpec{Type: "flow.end"})
	}
	return j
}
