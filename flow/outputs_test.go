package flow_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

type (
	fetchConfig struct {
		Local string `json:"local_path"`
	}
	fetchOutput struct {
		File  string   `json:"file" file:"local_path"`
		Files []string `json:"files" file:"local_path"`
		Count int      `json:"count"`
	}
)

// TestCheckLostFiles warns of files in the workspace that no step uses, and of no
// others.
func TestCheckLostFiles(t *testing.T) {
	r := registry()
	courier.RegisterFunc(r, "demo.fetch", fake[fetchConfig, fetchOutput], nil)
	fetch := func(path any) courier.StepSpec {
		s := with("demo.fetch", m{"local_path": path})
		if path == nil {
			s.Config = nil
		}
		s.ID = "get"
		return s
	}
	open := func(v string) courier.StepSpec { return with("demo.open", m{"v": v}) }
	for name, c := range map[string]struct {
		steps []courier.StepSpec
		lost  bool
	}{
		"alone":               {[]courier.StepSpec{fetch(nil)}, true},
		"empty path":          {[]courier.StepSpec{fetch("")}, true},
		"relative, the last":  {[]courier.StepSpec{open("a"), fetch("in/a.csv")}, true},
		"relative, not last":  {[]courier.StepSpec{fetch("in/a.csv"), open("in/a.csv")}, false},
		"absolute":            {[]courier.StepSpec{fetch("/in/a.csv")}, false},
		"absolute on Windows": {[]courier.StepSpec{fetch(`C:\in\a.csv`)}, false},
		"path of a param":     {[]courier.StepSpec{fetch("context:params.dir")}, false},
		"path with a param":   {[]courier.StepSpec{fetch("in/${context:params.dir}")}, false},
		"used by id":          {[]courier.StepSpec{fetch(nil), open("context:get.file")}, false},
		"used by index":       {[]courier.StepSpec{fetch(nil), open("see ${context:0.files[0]}")}, false},
		"only counted":        {[]courier.StepSpec{fetch(nil), open("context:get.count")}, true},
		"the workspace":       {[]courier.StepSpec{fetch(nil), open("${context:job.workspace}/x")}, false},
		"used by a marker":    {[]courier.StepSpec{fetch(nil), forEach("context:get.files"), open("x"), with("flow.end", nil)}, false},
		"lost in a loop":      {[]courier.StepSpec{forEach([]any{1}), fetch(nil), with("flow.end", nil)}, true},
	} {
		tree, err := flow.Parse(c.steps)
		if err != nil {
			t.Fatal(name, err)
		}
		problems, warnings := flow.Check(tree, &courier.Job{Name: "x", Params: m{"dir": "/in"}, Steps: c.steps}, r)
		text := fmt.Sprint(warnings)
		if lost := strings.Contains(text, `no later step refers to the output "file"`); lost != c.lost || len(problems) > 0 || lost && !strings.Contains(text, `config.local_path: no later`) {
			t.Errorf("%s: problems %v, warnings %v", name, problems, warnings)
		}
	}
	defer func() {
		if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), `file:"nowhere" names no field`) {
			t.Errorf("registered with a tag of no field: %v", p)
		}
	}()
	type lost struct {
		File string `json:"file" file:"nowhere"`
	}
	courier.RegisterFunc(r, "demo.lost", func(context.Context, *courier.Context, fetchConfig) (o lost, err error) { return o, nil }, nil)
}
