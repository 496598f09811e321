package filehash_test

import (
	"strings"
	"testing"

	"github.com/courierhq/courier/dashboard/internal/filehash"
)

// TestOf: the hash stands in the object that names the file. Beside all outputs it counts only if
// the step has reported one file, and text that is no hash never does.
func TestOf(t *testing.T) {
	md5, sha := strings.Repeat("0a", 16), strings.Repeat("0a", 32)
	for _, c := range []struct {
		outputs string
		only    bool
		want    string
	}{
		{`{"files":[{"name":"b.csv","sha256":"` + strings.Repeat("ff", 32) + `"},{"name":"a.csv","sha256":"` + sha + `"}]}`, false, "SHA-256 " + sha},
		{`{"remote_path":"in/a.csv","checksum":"` + md5 + `"}`, false, "MD5 " + md5},
		{`{"path":"csv","sha256":"` + sha + `"}`, false, ""}, // the end of a name is no name
		{`{"path":"","sha256":"` + sha + `"}`, false, ""},
		{`{"sha256":"` + sha + `"}`, false, ""},
		{`{"sha256":"` + sha + `"}`, true, "SHA-256 " + sha},
		{`{"name":"a.csv","hash":"unknown"}`, true, ""},
		{`{"name":"a.csv","md5":"` + md5[1:] + `"}`, false, ""},
		{`{"name":"a.csv","sha256":"<script>","sha512":"` + sha + sha + `"}`, false, "SHA-512 " + sha + sha},
		{`{"a":{"b":{"c":{"d":{"name":"a.csv","md5":"` + md5 + `"}}}}}`, false, "MD5 " + md5},
		{`{"a":{"b":{"c":{"d":{"e":{"name":"a.csv","md5":"` + md5 + `"}}}}}}`, false, ""},
		{``, true, ""}, {`{`, true, ""}, {`[]`, true, ""}, {`null`, true, ""},
	} {
		if got := filehash.Of([]byte(c.outputs), "/srv/in/a.csv", c.only); got != c.want {
			t.Errorf("%s: %q, want %q", c.outputs, got, c.want)
		}
	}
}
