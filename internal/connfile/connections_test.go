package connfile

import (
	"strings"
	"testing"
)

// The names in a file of connections are exact, and each comes once.
func TestNamesAreExact(t *testing.T) {
	type connection struct {
		Host string `json:"host"`
		Timeouts
	}
	for text, want := range map[string]string{
		`{"host": "a", "keep_alive_seconds": 3}`: "",
		`null`:                                   "",
		`{"host": "a", "HOST": "b"}`:             `unknown field "HOST"`,
		`{"ho\u017ft": "a"}`:                     "unknown field",
		`{"host": "a", "host": "b"}`:             `"host" is repeated`,
		`{"Connect_timeout_seconds": 1}`:         "unknown field",
		`{"host": "a", "operation_timeout": 1}`:  `unknown field "operation_timeout"`,
	} {
		var c connection
		if err := DecodeStrict([]byte(text), &c); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	_, err := ParseConnections([]byte(`{"a": {}, "a": {}}`), func(string, *connection) error { return nil }, func(string, map[string]connection) error { return nil })
	if err == nil || !strings.Contains(err.Error(), `"a" is repeated`) {
		t.Errorf("a connection that is repeated: %v", err)
	}
}
