package contract

import (
	"strings"

	"github.com/pb33f/libopenapi-validator/errors"
)

type errorOf = errors.ValidationError

// resolved follows the references of a schema.
func (c *contract) resolved(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		var at any = c.doc
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[name]
		}
		schema = at.(map[string]any)
	}
}

// kind returns the type of the values of a schema: the first, if there are several.
func kind(schema map[string]any) string {
	switch k := schema["type"].(type) {
	case string:
		return k
	case []any:
		return k[0].(string)
	}
	return ""
}

// example returns a value that a schema permits, with the fields that must be there.
func (c *contract) example(schema map[string]any, depth int) any {
	schema = c.resolved(schema)
	if forms, ok := schema["anyOf"].([]any); ok {
		return c.example(forms[0].(map[string]any), depth)
	}
	if words, ok := schema["enum"].([]any); ok {
		return words[0]
	}
	switch kind(schema) {
	case "object":
		o := map[string]any{}
		required, _ := schema["required"].([]any)
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range required {
			if depth > 0 {
				o[name.(string)] = c.example(properties[name.(string)].(map[string]any), depth-1)
			}
		}
		return o
	case "array":
		if items, ok := schema["items"].(map[string]any); ok && depth > 0 {
			return []any{c.example(items, depth-1)}
		}
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return true
	}
	if schema["format"] == "date-time" {
		return "2026-11-23T08:00:00Z"
	}
	return "report"
}

// wrong are values, each of another kind.
var wrong = map[string]any{
	"object": map[string]any{"no_such_field": 1}, "array": []any{[]any{}}, "integer": 1, "number": 1.5, "boolean": true, "string": "no such text",
}

// mutants returns values that a schema forbids: examples with one thing wrong.
func (c *contract) mutants(schema map[string]any, depth int) (list []any) {
	schema = c.resolved(schema)
	if forms, ok := schema["anyOf"].([]any); ok {
		for _, one := range forms {
			list = append(list, c.mutants(one.(map[string]any), depth)...)
		}
		return list
	}
	is := kind(schema)
	if is == "" {
		return nil
	}
	for k, v := range wrong {
		if k != is && (is != "number" || k != "integer") && (k != "string" || schema["enum"] != nil || is != "string") {
			list = append(list, v)
		}
	}
	switch is {
	case "string":
		if schema["enum"] != nil || schema["format"] != nil {
			list = append(list, "no such text")
		}
	case "integer":
		list = append(list, 1e30, 1.5)
		if most, ok := schema["maximum"].(float64); ok {
			list = append(list, most+1)
		}
	case "array":
		if items, ok := schema["items"].(map[string]any); ok && depth > 0 {
			for _, m := range c.mutants(items, depth-1) {
				list = append(list, []any{m})
			}
		}
	case "object":
		list = append(list, c.objects(schema, depth)...)
	}
	return list
}

// objects returns objects with one field that is wrong, missing or too much.
func (c *contract) objects(schema map[string]any, depth int) (list []any) {
	with := func(name string, value any) map[string]any {
		o := c.example(schema, depth).(map[string]any)
		o[name] = value
		return o
	}
	if schema["additionalProperties"] == false {
		list = append(list, with("no_such_field", 1))
	}
	values, ok := schema["additionalProperties"].(map[string]any)
	if ok && depth > 0 {
		for _, m := range c.mutants(values, depth-1) {
			list = append(list, with("key", m))
		}
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok || depth == 0 {
		return list
	}
	for _, name := range sorted(properties) {
		for _, m := range c.mutants(properties[name].(map[string]any), depth-1) {
			list = append(list, with(name, m))
		}
	}
	return list
}
