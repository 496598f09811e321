package flow

import (
	"fmt"
	"strings"

	"github.com/courierhq/courier"
)

// uses notes which outputs of which steps are referred to.
type uses struct {
	outputs   map[int]map[string]bool
	workspace bool // something refers to the whole directory
}

// note notes the references of an entry.
func (u *uses) note(t *Tree, refs []FieldReference) {
	for _, r := range refs {
		if r.Ref.Head == headJob && r.Ref.Name == "workspace" {
			u.workspace = true
		}
		j, ok := t.Head(r.Ref.Head)
		if !ok {
			continue
		}
		if u.outputs == nil {
			u.outputs = make(map[int]map[string]bool)
		}
		if u.outputs[j] == nil {
			u.outputs[j] = make(map[string]bool)
		}
		u.outputs[j][r.Ref.Name] = true
	}
}

// checkOutputs warns of steps that write files into the workspace, to which no
// later step refers: they are removed with the workspace when the execution has
// completed.
func (c *checker) checkOutputs() {
	if c.broken || c.used.workspace {
		return
	}
	last := c.tree.Len() - 1
	for last >= 0 && c.tree.entries[last].kind != work {
		last--
	}
	for i := range c.tree.steps {
		if c.tree.entries[i].kind != work || c.warnings.full() {
			continue
		}
		s := c.tree.Spec(i)
		if typ, ok := c.registry.Lookup(s.Type); ok {
			if name, place := c.lost(i, typ, i == last); name != "" {
				c.warnings.add(at(s, i, "config."+place, fmt.Sprintf(
					"no later step refers to the output %q: the file lies in the workspace, and is removed with it when the execution has completed; give an absolute path to keep it, name it in the outputs of the job, or use it as \"context:%s.%s\"",
					name, headOf(s, i), name)))
			}
		}
	}
}

// lost returns the first output of step i that is a file which nobody uses, and
// the field of the configuration that says where it lies.
func (c *checker) lost(i int, typ *courier.StepType, last bool) (name, place string) {
	for _, p := range typ.Output().Properties {
		switch {
		case p.File == "":
		case c.used.outputs[i][p.Name], !c.inWorkspace(i, p.File, last):
			return "", ""
		case name == "":
			name, place = p.Name, p.File
		}
	}
	return name, place
}

// inWorkspace reports whether step i writes into the workspace for sure, and whether
// no later step can know where without referring to the output: either the step
// chooses the path, or there is no later step.
func (c *checker) inWorkspace(i int, place string, last bool) bool {
	switch v := c.tree.Template(i).config[place].(type) {
	case nil:
		return true
	case string:
		t, err := parseText(v)
		path, constant := t.constant()
		windows := len(path) > 1 && path[1] == ':'
		return err == nil && constant && (path == "" || last && !windows && !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, `\`))
	}
	return false
}

// headOf is how references name step i.
func headOf(s *courier.StepSpec, i int) string {
	if s.ID != "" {
		return s.ID
	}
	return fmt.Sprint(i)
}
