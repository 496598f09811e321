package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// JSON returns a value as JSON on several lines. Only hidden characters are escaped, because a form
// shows the text and sends it back.
func JSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if e.Encode(v) != nil {
		return ""
	}
	return Editable(strings.TrimSuffix(b.String(), "\n"))
}

// Editable returns JSON text with escapes for hidden characters. A page shows hidden characters by
// their numbers, and a form would send back these numbers.
func Editable(text string) string {
	if !strings.ContainsFunc(text, isHidden) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isHidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// IndentJSON returns JSON text with line breaks.
func IndentJSON(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// BreakJSON returns JSON text with line breaks if it is longer than a short line.
func BreakJSON(raw []byte) string {
	if len(raw) <= 60 {
		return string(raw)
	}
	return IndentJSON(raw)
}
