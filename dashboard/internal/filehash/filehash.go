// Package filehash finds the hash of a file in the outputs of the step that has transferred it.
package filehash

import (
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/courierhq/courier/internal/jsontext"
)

// The names of the outputs in which steps give the hash of a file, and the file itself.
var (
	hashNames = []string{"sha256", "hash", "sha512", "checksum", "md5"}
	pathNames = []string{"path", "file", "name", "file_path", "local_path", "remote_path"}
)

// Of returns the hash of a file in the outputs of a step. The hash is in an object that names the
// file, or beside all other outputs if the step has reported only one file.
func Of(outputs json.RawMessage, path string, only bool) string {
	v, err := jsontext.Parse(outputs)
	if err != nil {
		return ""
	}
	if h := beside(v, path, 0); h != "" || !only {
		return h
	}
	top, _ := v.(map[string]any)
	return in(top)
}

// beside searches a value for an object that names a file, at most four levels deep.
func beside(v any, path string, depth int) string {
	var inner []any
	switch v := v.(type) {
	case map[string]any:
		for _, name := range pathNames {
			if text, _ := v[name].(string); text != "" && (text == path || strings.HasSuffix(path, "/"+text)) {
				return in(v)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			inner = append(inner, v[name])
		}
	case []any:
		inner = v
	}
	if depth == 4 {
		return ""
	}
	for _, v := range inner {
		if h := beside(v, path, depth+1); h != "" {
			return h
		}
	}
	return ""
}

// in returns the hash among the fields of an object, with its algorithm, which follows from its
// length.
func in(object map[string]any) string {
	algorithms := map[int]string{32: "MD5", 64: "SHA-256", 128: "SHA-512"}
	for _, name := range hashNames {
		text, _ := object[name].(string)
		if _, err := hex.DecodeString(text); err == nil && algorithms[len(text)] != "" {
			return algorithms[len(text)] + " " + text
		}
	}
	return ""
}
