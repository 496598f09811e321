package flow_test

import (
	"encoding/json"
	"fmt"

	"github.com/courierhq/courier/internal/jsontext"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// archive is a job that fetches all files and treats large ones specially.
const archive = `{"name": "archive", "steps": [
	{"id": "ls", "type": "sftp.list", "config": {"remote_path": "/in"}},
	{"type": "flow.foreach", "config": {"source": "context:ls.file_list"}},
	{"id": "get", "type": "sftp.download", "config": {"remote_path": "/in/${context:loop.current_item.name}"}},
	{"type": "flow.if", "config": {"left": "context:loop.current_item.size", "operator": "greater_than", "right": 1048576}},
	{"type": "file.zip", "config": {"source_path": "context:get.downloaded_file"}},
	{"type": "flow.end"},
	{"type": "flow.end"},
	{"type": "file.delete", "config": {"path": "/in/*"}}
]}`

func exampleSteps() []courier.StepSpec {
	var job courier.Job
	if err := json.Unmarshal([]byte(archive), &job); err != nil {
		panic(err)
	}
	return job.Steps
}

func ExampleParse() {
	tree, err := flow.Parse(exampleSteps())
	if err != nil {
		panic(err)
	}
	fmt.Print(tree)
	// Output:
	// Root (Sequence)
	// ├── StepNode(sftp.list, id "ls")
	// ├── ForEachNode(flow.foreach)
	// │   └── Body:
	// │       ├── StepNode(sftp.download, id "get")
	// │       └── IfElseNode(flow.if)
	// │           └── Then: StepNode(file.zip)
	// └── StepNode(file.delete)
}

func ExampleParse_problems() {
	_, err := flow.Parse([]courier.StepSpec{
		{Type: "flow.if", Config: map[string]any{"left": "context:params.day", "operator": "equal", "right": "Monday"}},
		{Type: "file.copy"},
		{Type: "flow.elseif"},
	})
	fmt.Println(err)
	// Output:
	// 3 problems in the list of steps:
	//   step 0 (flow.if): config.operator: unknown operator "equal"; did you mean "equals"?
	//   step 0 (flow.if): no flow.end closes it; add one after the last step that belongs to it
	//   step 2 (flow.elseif): type: unknown marker "flow.elseif"; did you mean "flow.else"?
}

// outputsByStep holds the outputs of steps, as an engine does.
type outputsByStep map[int]map[string]any

func (o outputsByStep) Value(head, name string) (any, bool) {
	var step int
	if _, err := fmt.Sscan(head, &step); err != nil {
		return nil, false
	}
	v, ok := o[step][name]
	return v, ok
}

func (o outputsByStep) Keys() []string {
	var keys []string
	for step, values := range o {
		for name := range values {
			keys = append(keys, fmt.Sprintf("%d.%s", step, name))
		}
	}
	return keys
}

func (o outputsByStep) Forget(first, last int) {
	for step := first; step <= last; step++ {
		delete(o, step)
	}
}

// SetNull and LoopEnded are for loops with on_item_failure: continue.
func (o outputsByStep) SetNull(first, last int)                                       { o.Forget(first, last) }
func (o outputsByStep) LoopEnded(marker int, outer []int, count, failed, rescued int) {}

func ExampleWalk() {
	tree, err := flow.Parse(exampleSteps())
	if err != nil {
		panic(err)
	}
	outputs := outputsByStep{}
	w, err := tree.Walk(courier.Position{}, outputs)
	if err != nil {
		panic(err)
	}
	for {
		step, err := w.Next()
		if err != nil {
			panic(err)
		}
		if step == tree.Len() {
			break
		}
		config, err := tree.Template(step).Render(nil, w, nil)
		if err != nil {
			panic(err)
		}
		fmt.Println(step, w.Iteration(), tree.Spec(step).Type, string(config))
		switch step { // what the steps return
		case 0:
			list, _ := jsontext.Parse([]byte(`[{"name": "a.csv", "size": 10}, {"name": "b.csv", "size": 5000000}]`))
			outputs[0] = map[string]any{"file_list": list}
		case 2:
			outputs[2] = map[string]any{"downloaded_file": fmt.Sprint("file-", w.Iteration()[0])}
		}
		w.Advance()
	}
	// Output:
	// 0 [] sftp.list {"remote_path":"/in"}
	// 2 [0] sftp.download {"remote_path":"/in/a.csv"}
	// 2 [1] sftp.download {"remote_path":"/in/b.csv"}
	// 4 [1] file.zip {"source_path":"file-1"}
	// 7 [] file.delete {"path":"/in/*"}
}

func ExampleTree_Next() {
	tree, err := flow.Parse(exampleSteps())
	if err != nil {
		panic(err)
	}
	values := courier.Values{
		"0.file_list":       []any{map[string]any{"name": "a.csv", "size": json.Number("10")}},
		"2.downloaded_file": "a.csv",
	}
	// Step 2 is done in the only iteration; the file is small.
	p := courier.Position{Step: 3, Loops: []courier.LoopPosition{{Step: 1, Index: 0}}}
	next, more, err := tree.Next(p, values)
	fmt.Println(next, more, err)
	// Output: {7 []} true <nil>
}

func ExampleCheck() {
	var registry courier.Registry
	courier.Register(&registry, "sftp.list", lister{}, nil)
	job := courier.Job{Name: "example", Steps: []courier.StepSpec{
		{ID: "ls", Type: "sftp.list", Config: map[string]any{"path": "/in"}},
		{Type: "flow.foreach", Config: map[string]any{"source": "context:ls.files"}},
		{Type: "sftp.list", Config: map[string]any{"path": "context:loop.current_item.nam"}},
		{Type: "flow.end"},
	}}
	tree, err := flow.Parse(job.Steps)
	if err != nil {
		panic(err)
	}
	problems, _ := flow.Check(tree, &job, &registry)
	for _, p := range problems {
		fmt.Println(p)
	}
	// Output:
	// step 2 (sftp.list): config.path: "loop.current_item.nam" has no value: current_item has no .nam; did you mean "name"?
}

func ExampleTemplate_Render() {
	t, problems := flow.Compile(map[string]any{
		"path":     "/archive/${context:params.day}/${context:0.file}",
		"size":     "context:0.size",
		"password": "secret:archive",
		"note":     "$${not} replaced",
	})
	if len(problems) > 0 {
		panic(problems)
	}
	values := courier.Values{"params.day": "2024-05-01", "0.file": "${odd}.csv", "0.size": json.Number("10")}
	config, err := t.Render(nil, values, func(name, param string) (string, error) { return "hidden", nil })
	fmt.Println(string(config), err)
	// Output: {"note":"${not} replaced","password":"hidden","path":"/archive/2024-05-01/${odd}.csv","size":10} <nil>
}

func ExampleExpand() {
	values := courier.Values{"params.partner": "acme"}
	fmt.Println(flow.Expand("partner:${context:params.partner}", values))
	fmt.Println(flow.Expand("partner:${context:params.partnr}", values))
	// Output:
	// partner:acme <nil>
	//  "params.partnr" has no value here; did you mean "params.partner"?
}
