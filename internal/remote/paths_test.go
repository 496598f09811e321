package remote

import "testing"

func TestPaths(t *testing.T) {
	for _, test := range [][3]string{{"", "x", "x"}, {".", "x", "x"}, {"/", "x", "/x"}, {"a", "x", "a/x"}, {"a/", "x", "a/x"}, {"/a/b", "x", "/a/b/x"}} {
		if got := Join(test[0], test[1]); got != test[2] {
			t.Errorf("Join(%q, %q) = %q, want %q", test[0], test[1], got, test[2])
		}
	}
	for _, test := range [][3]string{{"x", ".", "x"}, {"/x", "/", "x"}, {"a/x", "a", "x"}, {"/a/b/x", "/a/b", "x"}, {"a/", "a", ""}, {"", ".", ""}} {
		if dir, name := Split(test[0]); dir != test[1] || name != test[2] {
			t.Errorf("Split(%q) = %q, %q, want %q, %q", test[0], dir, name, test[1], test[2])
		}
	}
}
