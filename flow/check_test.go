package flow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

type (
	fileInfo struct {
		Name string            `json:"name"`
		Size int64             `json:"size"`
		Tags map[string]string `json:"tags"`
		Meta any               `json:"meta"`
	}
	listConfig struct {
		Path string `json:"remote_path" courier:"required"`
	}
	listOutput struct {
		Files []fileInfo `json:"file_list"`
		Count int        `json:"file_count"`
		Plain string
	}
	getConfig struct {
		Path  string    `json:"remote_path" courier:"required"`
		Retry *bool     `json:"retry"`
		Names []string  `json:"names"`
		Size  int       `json:"size"`
		Share float64   `json:"share"`
		Since time.Time `json:"since"`
	}
	getOutput struct {
		File string `json:"downloaded_file"`
	}
)

func fake[C, O any](context.Context, *courier.Context, C) (o O, err error) { return o, nil }

func registry() *courier.Registry {
	r := new(courier.Registry)
	courier.RegisterFunc(r, "sftp.list", fake[listConfig, listOutput], nil)
	courier.RegisterFunc(r, "sftp.download", fake[getConfig, getOutput], &courier.TypeOptions{Aliases: []string{"ftp.download"}})
	courier.RegisterFunc(r, "file.delete", fake[map[string]any, struct{}], nil)
	courier.RegisterFunc(r, "demo.open", fake[map[string]any, map[string]any], nil)
	return r
}

func list() courier.StepSpec { return with("sftp.list", m{"remote_path": "/in"}) }

func get(path any) courier.StepSpec { return with("sftp.download", m{"remote_path": path}) }

// del is a step of which any configuration is right.
func del(config m) courier.StepSpec { return with("file.delete", config) }

func check(t *testing.T, job courier.Job) (problems, warnings []string) {
	t.Helper()
	if job.Name == "" {
		job.Name = "test"
	}
	tree, err := flow.Parse(job.Steps)
	p, w := flow.Check(tree, &job, registry())
	if err == nil {
		q, v := flow.Check(nil, &job, registry())
		if !slices.Equal(p, q) || !slices.Equal(w, v) {
			t.Errorf("Check finds %v, %v with the tree, but %v, %v without it", p, w, q, v)
		}
	}
	return texts(p), texts(w)
}

func texts(problems []courier.Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, p.String())
	}
	return list
}

// expect compares messages with what they should contain, in order.
func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	ok := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		ok = ok && strings.Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s are\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestCheckNothingWrong(t *testing.T) {
	steps := []courier.StepSpec{
		named("ls", list()),
		named("each", forEach("context:ls.file_list")),
		named("get", get("/in/${context:loop.current_item.name}")),
		when("context:loop.current_item.size", "greater_than", 1<<20),
		del(m{"path": "context:get.downloaded_file", "size": "context:loop.current_item.size", "index": "context:loop.index"}),
		otherwise,
		with("FTP.Download", m{"remote_path": "context:2.downloaded_file", "size": "context:0.file_count", "names": []any{"context:0.Plain"}, "share": "context:0.file_count", "since": "context:job.started_at", "retry": "context:params.retry"}),
		end,
		end,
		when("context:get.downloaded_file", "exists", nil),
		del(m{"path": "secret:x", "n": "context:job.attempt", "day": "${context:params.day}"}),
		end,
		forEach("[1,2]"),
		forEach("context:0.Plain"), // may be the JSON of a list
		get("${context:loop.0.index}-${context:loop.0.current_item.any[2]}-${context:loop.current_item.x}"),
		del(m{"outer": "context:loop.0"}),
		end,
		get("x"),
		end,
		get("context:17.downloaded_file"), // the list is not empty
	}
	zero, n := time.Duration(0), 0
	job := courier.Job{
		Name: "Ünicode job", Queue: "slow", Limit: 2, Steps: steps,
		Params:        m{"day": nil, "retry": true, "partner": []any{"x"}},
		LimitKeys:     []string{"plain", "${context:params.partner}-x", "context:job.name"},
		FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep, MaxRetries: &n, BackoffBase: &zero, BackoffMax: &zero},
	}
	problems, warnings := check(t, job)
	expect(t, "problems", problems, nil)
	expect(t, "warnings", warnings, nil)
}

func TestCheckJob(t *testing.T) {
	minus, n := -time.Second, -1
	problems, warnings := check(t, courier.Job{
		Name: "a\nb", Queue: strings.Repeat("q", 201), Limit: -1,
		FailurePolicy: courier.FailurePolicy{Type: "retry_steps", MaxRetries: &n, BackoffBase: &minus, BackoffMax: &minus},
		Params:        m{"a.b": 1, "bad": math.NaN(), "nul": "\x00", "ok": []string{"x"}},
		LimitKeys:     []string{"", "secret:x", "${context:", "context:0.file", "context:params.okk", "context:job.id", "a\x00", "context:job.name.x", "context:loop.index"},
	})
	expect(t, "problems", problems, []string{
		"name: contains a control character",
		"queue: has 201 characters; 200 is the most",
		"limit: -1 is negative; 0 means no limit",
		`failure_policy.type: unknown policy "retry_steps"; did you mean "retry_step"?`,
		"failure_policy.max_retries: -1 is negative",
		"failure_policy.backoff_base_seconds: -1 is negative",
		"failure_policy.backoff_max_seconds: -1 is negative",
		"params.bad: json: unsupported value: NaN",
		"params.nul: contains a NUL character",
		"limit_keys[0]: is empty",
		"limit_keys[1]: a secret can't be used here",
		"limit_keys[2]: reference ",
		`limit_keys[3]: "0.file" can't be used here, since limit keys are known before the first step`,
		`limit_keys[4]: "params.okk" has no value: the job declares no param "okk"; did you mean "ok"?`,
		`limit_keys[5]: "job.id" has no value: job has no "id"; `,
		"limit_keys[6]: contains a control character",
		`limit_keys[7]: "job.name.x" has no value: name is a string, and has no .x`,
		`limit_keys[8]: "loop.index" can't be used here`,
	})
	expect(t, "warnings", warnings, []string{"steps: there are none", `params.a.b: no reference can name "a.b"`})

	for want, keys := range map[string][]string{
		"limit_keys: there are 17; 16 is the most":                         strings.Split(strings.Repeat("k,", 16)+"k", ","),
		"limit_keys: they have 2049 bytes together; 2048 is the most; use": {strings.Repeat("k", 2049)},
	} {
		problems, _ = check(t, courier.Job{Name: "keys", LimitKeys: keys})
		expect(t, "problems", problems, []string{want})
	}
	problems, _ = check(t, courier.Job{Name: strings.Repeat("é", 200)})
	expect(t, "problems", problems, nil)
	p, _ := flow.Check(nil, &courier.Job{Steps: []courier.StepSpec{do("a.b")}}, nil)
	expect(t, "problems", texts(p), []string{"name: is required", `step 0 (a.b): type: unknown step type "a.b"; known are flow.if, flow.else, flow.foreach, flow.try, flow.rescue, flow.end`})
}

func TestCheckSteps(t *testing.T) {
	minus := -time.Millisecond
	problems, _ := check(t, courier.Job{Steps: []courier.StepSpec{
		do(""),
		do("sftp.lst"),
		do("flow_if"),
		{Type: "file.delete", ID: "Big", Name: "a\x00b", Timeout: &minus, StallTimeout: &minus},
		{Type: "file.delete", ID: "job"},
		{Type: "file.delete", ID: "ok-1_x"},
		{Type: "file.delete", ID: "ok-1_x"},
		{Type: "file.delete", ID: strings.Repeat("a", 51)},
		{Type: "file.delete", ID: "1a"},
		{Type: "flow.foreach", ID: "ok-1_x", Config: m{"source": "[]"}},
		end,
		with("sftp.list", m{"remote_pth": "x", "n": "context:"}),
		with("sftp.list", m{"remote_pth": "x"}),
		with("sftp.download", m{"remote_path": 5, "names": []any{1}, "since": "yesterday"}),
		with("sftp.download", m{"remote_path": "x", "since": "yesterday"}),
		with("file.delete", m{"f": func() {}}),
	}})
	expect(t, "problems", problems, []string{
		`step 0: type: is required: the key of a step type, or a marker such as "flow.if"`,
		`step 1 (sftp.lst): type: unknown step type "sftp.lst"; did you mean "sftp.list"?`,
		`step 2 (flow_if): type: unknown step type "flow_if"; did you mean "flow.if"?`,
		`step 3 "Big" (file.delete): id: "Big" is malformed: a small letter`,
		`name: contains a control character`,
		`timeout_seconds: -0.001 is negative; 0 means none`,
		`stall_timeout_seconds: -0.001 is negative; 0 means none`,
		`step 4 "job" (file.delete): id: "job" is reserved`,
		`step 6 "ok-1_x" (file.delete): id: "ok-1_x" is the id of step 5 already`,
		`is malformed`,
		`step 8 "1a" (file.delete): id: "1a" is malformed`,
		`step 9 "ok-1_x" (flow.foreach): id: "ok-1_x" is the id of step 5 already`,
		`step 11 (sftp.list): config.n: reference ""`,
		`step 12 (sftp.list): config: unknown field "remote_pth"; did you mean "remote_path"?`,
		`step 12 (sftp.list): config.remote_path: is required`,
		`step 13 (sftp.download): config.names[0]: must be a string, not 1`,
		`step 13 (sftp.download): config.remote_path: must be a string, not 5`,
		`step 14 (sftp.download): config: parsing time`,
		`step 15 (file.delete): config.f: json: unsupported type: func()`,
	})
}

// lines makes one step for each reference, after some steps to refer to.
func references(t *testing.T, before []courier.StepSpec, refs ...string) (problems, warnings []string) {
	t.Helper()
	config := m{}
	for i, ref := range refs {
		config[fmt.Sprintf("f%02d", i)] = "context:" + ref
	}
	steps := append(slices.Clone(before), del(config))
	for range strings.Count(fmt.Sprint(before), "flow.foreach") + strings.Count(fmt.Sprint(before), "flow.if") - strings.Count(fmt.Sprint(before), "flow.end") {
		steps = append(steps, end)
	}
	return check(t, courier.Job{Steps: append(steps, list()), Params: m{"day": nil}})
}

func TestCheckReferences(t *testing.T) {
	before := []courier.StepSpec{named("ls", list()), forEach("[1]"), end, del(nil), with("demo.open", nil), do("un.known")}
	problems, warnings := references(t, before,
		"6.x", "7.file_list", "99.x", "007.x", "sl.x", "nobody.x", "1.x", "2.x",
		"0.file_lst", "0.plain", "0.file_list.name", "0.file_list[0].nme", "0.file_list[0][0]", "0.file_list[0].size.x",
		"0.file_list[0].tags.x", "0.file_list[0].meta.x", "0.file_list[0].name", "3.x", "4.x", "5.x",
		"loop.index", "loop.0.index", "params.dya", "params.day.any.path", "job.nme", "job.attempt.x", "chain.x", "monitor.file",
	)
	expect(t, "problems", problems, []string{
		`step 5 (un.known): type: unknown`,
		`step 6 (file.delete): config.f00: "6.x" refers to the step itself, which has no outputs before it is done`,
		`config.f01: "7.file_list" refers to a later step, step 7 (sftp.list); references can only look back`,
		`config.f02: "99.x" has no value: there is no step 99; the last one is 7`,
		`config.f03: "007.x" has no value: no step has the id "007"`,
		`config.f04: "sl.x" has no value: no step has the id "sl"; did you mean "ls"?`,
		`config.f05: "nobody.x" has no value: no step has the id "nobody"; known are ls, params, job, loop`,
		`config.f06: "1.x" refers to step 1 (flow.foreach), a marker, which has no outputs`,
		`config.f07: "2.x" refers to step 2 (flow.end), a marker`,
		`config.f08: "0.file_lst" has no value: step 0 "ls" (sftp.list) has no output "file_lst"; did you mean "file_list"?`,
		`config.f09: "0.plain" has no value: step 0 "ls" (sftp.list) has no output "plain"; did you mean "Plain"?`,
		`config.f10: "0.file_list.name" has no value: file_list is a list; select an item by its index, as in file_list[0]`,
		`config.f11: "0.file_list[0].nme" has no value: file_list[0] has no .nme; did you mean "name"?`,
		`config.f12: "0.file_list[0][0]" has no value: file_list[0] has no [0]; known are name, size, tags, meta`,
		`config.f13: "0.file_list[0].size.x" has no value: file_list[0].size is a whole number, and has no .x`,
		`config.f20: "loop.index" has a value only inside a flow.foreach, and step 6 (file.delete) is not in one`,
		`config.f21: "loop.0.index" has a value only inside a flow.foreach`,
		`config.f22: "params.dya" has no value: the job declares no param "dya"; did you mean "day"?`,
		`config.f24: "job.nme" has no value: job has no "nme"; did you mean "name"?`,
		`config.f25: "job.attempt.x" has no value: attempt is a whole number, and has no .x`,
		`config.f27: "monitor.file" has no value: what a monitor has found is in params.files, and its name in params.monitor`,
	})
	expect(t, "warnings", warnings, []string{
		`config.f14: "0.file_list[0].tags.x" can't be checked: it is not known which fields file_list[0].tags has`,
		`config.f15: "0.file_list[0].meta.x" can't be checked: it is not known what file_list[0].meta contains`,
		`config.f17: "3.x" has a value only if step 3 (file.delete) sets it, since its type declares no outputs`,
		`config.f18: "4.x" can't be checked, since step 4 (demo.open) does not say which outputs it has`,
	})
}

func TestCheckLoops(t *testing.T) {
	problems, warnings := references(t, []courier.StepSpec{list(), forEach("context:0.file_list")},
		"loop.current_item.nme", "loop.current_item.size[0]", "loop.item", "loop.index.x", "loop.0.index", "loop.1.index", "loop.current_item")
	expect(t, "problems", problems, []string{
		`config.f00: "loop.current_item.nme" has no value: current_item has no .nme; did you mean "name"?`,
		`config.f01: "loop.current_item.size[0]" has no value: current_item.size is a whole number, and has no [0]`,
		`config.f02: "loop.item" has no value: a loop has no "item"; `,
		`config.f03: "loop.index.x" has no value: index is a whole number, and has no .x`,
		`config.f04: "loop.0.index" has no value: loop.<depth> is for the loops around an inner loop, and there is only one loop here`,
		`config.f05: "loop.1.index" has no value: loop.<depth> is for`,
	})
	expect(t, "warnings", warnings, nil)

	problems, _ = references(t, []courier.StepSpec{list(), forEach("context:0.file_list"), forEach("[]"), forEach("context:loop.current_item")},
		"loop.2.index", "loop.0.current_item.nme", "loop.0.itm", "loop.1.current_item.x", "loop.0.index.y", "loop.0", "loop.0[0]")
	expect(t, "problems", problems, []string{
		`config.f00: "loop.2.index" has no value: loop.<depth> goes from loop.0, the outermost, to loop.1 here`,
		`config.f01: "loop.0.current_item.nme" has no value: current_item has no .nme; did you mean "name"?`,
		`config.f02: "loop.0.itm" has no value: a loop has no "itm"`,
		`config.f04: "loop.0.index.y" has no value: index is a whole number`,
		`config.f06: "loop.0[0]" has no value: a loop has no ""`,
	})

	problems, _ = check(t, courier.Job{Steps: []courier.StepSpec{
		list(), forEach("context:0.file_count"), end, forEach("context:0.file_list[0].tags"), end, forEach("context:loop.current_item"), end,
		forEach("context:8.x"), del(nil), end,
	}})
	expect(t, "problems", problems, []string{
		`step 1 (flow.foreach): config.source: "0.file_count" is a whole number, not a list`,
		`step 3 (flow.foreach): config.source: "0.file_list[0].tags" is an object, not a list`,
		`step 5 (flow.foreach): config.source: "loop.current_item" has a value only inside a flow.foreach`,
		`step 7 (flow.foreach): config.source: "8.x" refers to a later step`,
	})
}

func TestCheckLoopResults(t *testing.T) {
	loop := each("[1,2]", nil)
	problems, warnings := check(t, courier.Job{Steps: []courier.StepSpec{
		named("plain", forEach("[1]")), end, // 0, 1
		named("each", loop), // 2
		del(m{"a": "context:each.failed_count", "b": "context:inner.count", "c": "context:2.failed[0].class"}), // 3
		named("inner", loop), end, // 4, 5
		del(m{"a": "context:inner.failed"}), // 6
		end,                                 // 7
		when("context:each.failed_count", "greater_than", 0), // 8
		named("maybe", loop), end, // 9, 10
		otherwise,                          // 11
		del(m{"a": "context:maybe.count"}), // 12
		end,                                // 13
		del(m{
			"a": "context:each.failed", "b": "context:each.failed[0].index", "c": "context:each.failed[0].clas", "d": "context:each.fialed", "e": "context:each.count.x",
			"f": "context:plain.count", "g": "context:inner.count", "h": "context:maybe.count", "i": "${context:each.failed_count} of ${context:each.count}",
		}), // 14
		named("again", forEach("context:each.failed")),                                          // 15
		del(m{"a": "context:loop.current_item.message", "b": "context:loop.current_item.file"}), // 16
		end,                                // 17
		forEach("context:each.count"), end, // 18, 19
		get("context:each.count"), // 20
	}})
	expect(t, "problems", problems, []string{
		`step 3 (file.delete): config.a: "each.failed_count" has a value only when the loop of step 2 "each" (flow.foreach) is over, which is behind its flow.end, step 7`,
		`config.b: "inner.count" refers to a later step`,
		`config.c: "2.failed[0].class" has a value only when the loop of step 2 "each" (flow.foreach) is over`,
		`step 12 (file.delete): config.a: "maybe.count" refers to step 9 "maybe" (flow.foreach), in the other branch of step 8 (flow.if); only one of them runs`,
		`step 14 (file.delete): config.c: "each.failed[0].clas" has no value: failed[0] has no .clas; did you mean "class"?`,
		`config.d: "each.fialed" has no value: step 2 "each" (flow.foreach) has no "fialed"; did you mean "failed"?`,
		`config.e: "each.count.x" has no value: count is a whole number, and has no .x`,
		`config.f: "plain.count" refers to step 0 "plain" (flow.foreach), a marker, which has no outputs; a loop's variables are loop.current_item and loop.index`,
		`config.g: "inner.count" has a value only in the present iteration of the loop of step 2 "each" (flow.foreach), in which step 4 "inner" (flow.foreach) lies; step 14 (file.delete) lies behind that`,
		`step 16 (file.delete): config.b: "loop.current_item.file" has no value: current_item has no .file`,
		`step 18 (flow.foreach): config.source: "each.count" is a whole number, not a list`,
		`step 20 (sftp.download): config.remote_path: "each.count" is a whole number, but remote_path must be a string`,
	})
	expect(t, "warnings", warnings, []string{
		`step 14 (file.delete): config.h: "maybe.count" has a value only if step 9 "maybe" (flow.foreach) has run, which depends on the condition of step 8 (flow.if)`,
	})
}

func TestCheckRetryJobInLoops(t *testing.T) {
	own := del(nil)
	own.FailurePolicy = courier.FailurePolicy{Type: courier.RetryStep}
	steps := []courier.StepSpec{del(nil), each("[1]", nil), when(1, "equals", 1), del(nil), own, end, end, forEach("[1]"), del(nil), end}
	problems, _ := check(t, courier.Job{Steps: steps, FailurePolicy: courier.FailurePolicy{Type: courier.RetryJob}})
	expect(t, "problems", problems, []string{
		`step 3 (file.delete): failure_policy: is "retry_job", that of the job, but the step lies in the loop of step 1 (flow.foreach), where a failure is that of the item (on_item_failure: "continue"); give the step a policy of its own, such as "retry_step"`,
	})
	problems, _ = check(t, courier.Job{Steps: steps, FailurePolicy: courier.FailurePolicy{Type: courier.RetryStep}})
	expect(t, "problems", problems, nil)
}

func TestCheckBranches(t *testing.T) {
	problems, warnings := check(t, courier.Job{Steps: []courier.StepSpec{
		list(),                                 // 0
		when("context:0.Plain", "exists", nil), // 1
		get("a"),                               // 2
		forEach("context:0.file_list"),         // 3
		get("context:2.downloaded_file"),       // 4
		end,                                    // 5
		get("context:4.downloaded_file"),       // 6: may be empty
		otherwise,                              // 7
		get("context:2.downloaded_file"),       // 8: the other branch
		get("context:4.downloaded_file"),       // 9: the other branch, deeper
		when("context:2.downloaded_file", "exists", nil), // 10: the other branch
		get("context:8.downloaded_file"),                 // 11
		end,                                              // 12
		get("context:11.downloaded_file"),                // 13
		end,                                              // 14
		get("context:2.downloaded_file"),                 // 15
		get("context:4.downloaded_file"),                 // 16
		when("context:8.downloaded_file", "equals", "context:4.downloaded_file"), // 17
		end, // 18
		when("context:8.downloaded_file", "EXISTS", nil), // 19
		get("context:8.downloaded_file"),                 // 20
		end,
	}})
	expect(t, "problems", problems, []string{
		`step 8 (sftp.download): config.remote_path: "2.downloaded_file" refers to step 2 (sftp.download), in the other branch of step 1 (flow.if); only one of them runs`,
		`step 9 (sftp.download): config.remote_path: "4.downloaded_file" refers to step 4 (sftp.download), in the other branch of step 1 (flow.if)`,
		`step 10 (flow.if): config.left: "2.downloaded_file" refers to step 2 (sftp.download), in the other branch`,
	})
	expect(t, "warnings", warnings, []string{
		`step 6 (sftp.download): config.remote_path: "4.downloaded_file" has a value only if step 4 (sftp.download) has run, which depends on whether the list of step 3 (flow.foreach) is empty`,
		`step 13 (sftp.download): config.remote_path: "11.downloaded_file" has a value only if step 11 (sftp.download) has run, which depends on the condition of step 10 (flow.if)`,
		`step 15 (sftp.download): config.remote_path: "2.downloaded_file" has a value only if step 2 (sftp.download) has run, which depends on the condition of step 1 (flow.if)`,
		`step 16 (sftp.download): config.remote_path: "4.downloaded_file" has a value only if step 4 (sftp.download) has run`,
		`step 17 (flow.if): config.left: "8.downloaded_file"`,
		`step 17 (flow.if): config.right: "4.downloaded_file"`,
		`step 20 (sftp.download): config.remote_path: "8.downloaded_file"`,
	})
}

func TestCheckTypes(t *testing.T) {
	problems, warnings := check(t, courier.Job{Steps: []courier.StepSpec{
		list(),
		with("sftp.download", m{"remote_path": "context:0.file_list", "retry": "context:0.Plain", "names": "context:0.file_count", "size": "context:0.Plain", "share": "context:0.Plain"}),
		with("sftp.download", m{"remote_path": "context:params.x", "names": []any{"context:0.file_count"}, "since": "context:0.file_list[0].meta"}),
		with("sftp.download", m{"remote_path": "${context:0.file_count}"}),
	}})
	expect(t, "problems", problems, []string{
		`step 1 (sftp.download): config.names: "0.file_count" is a whole number, but names must be a list`,
		`config.remote_path: "0.file_list" is a list, but remote_path must be a string`,
		`config.retry: "0.Plain" is a string, but retry must be true or false`,
		`config.size: "0.Plain" is a string, but size must be a whole number`,
		`step 2 (sftp.download): config.names[0]: "0.file_count" is a whole number, but names[0] must be a string`,
	})
	expect(t, "warnings", warnings, []string{`config.remote_path: "params.x" can't be checked, since the job declares no params`})
}

func TestCheckWithoutATree(t *testing.T) {
	job := courier.Job{Name: "x", Limit: -1, Steps: []courier.StepSpec{
		end,
		forEach("context:9.x"),
		get("context:loop.current_item"),
		do("flow.elsif"),
		when("context:4.downloaded_file", "like", 1),
		do("nope.nope"),
	}}
	problems, _ := check(t, job)
	expect(t, "problems", problems, []string{
		"limit: -1",
		"step 0 (flow.end): closes nothing",
		"step 1 (flow.foreach): no flow.end closes it",
		`step 1 (flow.foreach): config.source: "9.x" has no value: there is no step 9`,
		`step 3 (flow.elsif): type: unknown marker`,
		`step 4 (flow.if): config.operator: unknown operator "like"`,
		`step 4 (flow.if): no flow.end closes it`,
		`step 4 (flow.if): config.left: "4.downloaded_file" refers to the step itself`,
		`step 5 (nope.nope): type: unknown step type`,
	})
}

func TestCheckIsBounded(t *testing.T) {
	var steps []courier.StepSpec
	for i := range 100_000 {
		steps = append(steps, named(fmt.Sprintf("step-number-%d", i), get(fmt.Sprintf("context:stepnumber%d.file", i))))
	}
	start := time.Now()
	problems, warnings := flow.Check(nil, &courier.Job{Name: "x", Steps: steps}, registry())
	if len(problems) != 1001 || len(warnings) != 0 || problems[1000].Step != -1 {
		t.Errorf("there are %d problems and %d warnings", len(problems), len(warnings))
	}
	for i := range steps {
		steps[i].Config = m{"remote_path": "context:params.x"}
	}
	problems, warnings = flow.Check(nil, &courier.Job{Name: "x", Steps: steps}, registry())
	if len(problems) != 0 || len(warnings) != 1001 {
		t.Errorf("there are %d problems and %d warnings", len(problems), len(warnings))
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("Check took %v", took)
	}
	// Blocks in broken lists.
	_, err := flow.Parse(slices.Repeat([]courier.StepSpec{forEach("x")}, 2000))
	if p, _ := flow.Check(nil, &courier.Job{Name: "x", Steps: slices.Repeat([]courier.StepSpec{forEach("x")}, 2000)}, registry()); len(p) != 1001 || !errors.Is(err, courier.ErrInvalid) {
		t.Errorf("there are %d problems, and Parse says %v", len(p), err)
	}
}

func TestCheckDeepLoops(t *testing.T) {
	steps := slices.Repeat([]courier.StepSpec{forEach("[1]")}, 3000)
	steps = append(steps, del(m{"a": "context:loop.0.current_item.x", "b": "context:loop.2990.index.x"}))
	steps = append(steps, slices.Repeat([]courier.StepSpec{end}, 3000)...)
	steps = append(steps, del(m{"a": "context:3000.x"}))
	problems, warnings := check(t, courier.Job{Steps: steps})
	expect(t, "problems", problems, []string{`config.b: "loop.2990.index.x" has no value: index is a whole number`})
	expect(t, "warnings", warnings, []string{`config.a: "3000.x" has a value only if step 3000 (file.delete) sets it`})
}

// lister is a step type for examples.
type lister struct{}

func (lister) Execute(context.Context, *courier.Context, listerConfig) (o listerOutput, err error) {
	return o, nil
}

type listerConfig struct {
	Path string `json:"path"`
}

type listerOutput struct {
	Files []fileInfo `json:"files"`
}
