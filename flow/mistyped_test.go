package flow_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/flow"
)

// TestMistypedReferences writes references as people do who know other languages, or
// type fast: each is warned of, with what to write. Texts that only look similar are
// not.
func TestMistypedReferences(t *testing.T) {
	for text, write := range map[string]string{
		"${params.dir}":                     `write "context:params.dir", or ${context:params.dir} in a longer text, or $${params.dir} for the text itself`,
		"/in/${params.dir}/x":               `"${params.dir}" is taken as it stands, and is not a reference; if it was meant as one, write ${context:params.dir}, or $${params.dir}`,
		"${context.list.file_list}":         `write "context:list.file_list"`,
		"${Context:params.dir}":             `write "context:params.dir"`,
		"${ context:params.dir }":           `write "context:params.dir"`,
		"${context: params.dir}":            "",
		"${0.file_list}":                    `write "context:0.file_list"`,
		"${{ params.dir }}":                 `write "context:params.dir"`,
		"{{params.dir}}":                    `write "context:params.dir"`,
		"a {{ context.params.dir }} b":      `write ${context:params.dir}`,
		"{context:params.dir}":              `write "context:params.dir"`,
		"#{context:params.dir}":             `write "context:params.dir"`,
		"$(params.dir)":                     `write "context:params.dir"`,
		"Context:params.dir":                `write "context:params.dir"`,
		"contexts:params.dir":               `write "context:params.dir"`,
		"contxt:list.file_list[0].name":     `write "context:list.file_list[0].name"`,
		" context:params.dir":               `write "context:params.dir"`,
		"/in/context:params.dir":            `write ${context:params.dir}`,
		"/in/context:loop.current_item/out": `write ${context:loop.current_item}`,
		"secrets:db":                        `write "secret:db"`,
		"Secret:db":                         `write "secret:db"`,
		"${secrets.db}":                     `write "secret:db" as the whole value`,
		"{{ secret:db }}":                   `write "secret:db" as the whole value`,
		"Bearer secret:token":               `write "secret:NAME" as the whole value, since`,
		"params.dir":                        `write "context:params.dir"`,
		"loop.current_item.path":            `write "context:loop.current_item.path"`,

		"$${params.dir}": "", "$${{params.dir}}": "", "$context:params.dir": "", "$secret:db": "", "context:params.dir": "",
		"x${context:params.dir}y": "", "${HOME}/x": "", "${env.HOME}": "", "{1.5}": "", "${1.5}": "", "a.csv": "", "0.file_list": "",
		"https://example.com/{id}": "", "{job.name}": "", "(params.dir)": "", "content:text": "", "C:list.txt": "", "top-secret: yes": "",
		`{"a": {"b": 1}}`: "", "^\\d{1,3}$": "", "${file.name}": "", "secret://vault/x": "", "12:30": "",
	} {
		job := courier.Job{Name: "x", Steps: []courier.StepSpec{get("/a"), with("demo.open", m{"v": []any{m{"deep": text}}})}}
		job.Steps[0].ID = "list"
		job.Params = m{"dir": nil}
		tree, err := flow.Parse(job.Steps)
		if err != nil {
			if write != "" {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		_, warnings := flow.Check(tree, &job, registry())
		var got []courier.Problem
		for _, w := range warnings {
			if strings.Contains(w.Message, "is taken as it stands") {
				got = append(got, w)
			}
		}
		switch {
		case write == "" && len(got) > 0:
			t.Errorf("%q: warned of %v", text, got)
		case write != "" && (len(got) != 1 || !strings.Contains(got[0].Message, write) || got[0].Step != 1 || got[0].Field != "config.v[0].deep"):
			t.Errorf("%q: warnings %v, want one with %q", text, got, write)
		}
	}
}
