package generated

import "testing"

func TestReplaced(t *testing.T) {
	const begin, end = "<!-- begin -->\n", "<!-- end -->\n"
	const want = "above\n" + begin + "new\n" + end + "below\n"
	got, err := replaced("above\n"+begin+"old\n"+end+"below\n", begin, end, "new\n")
	if err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	if again, err := replaced(got, begin, end, "new\n"); err != nil || again != want {
		t.Errorf("a second time: %q, %v", again, err)
	}
	for _, page := range []string{"", begin, end, end + begin} {
		if _, err := replaced(page, begin, end, "new\n"); err == nil {
			t.Errorf("page %q was accepted", page)
		}
	}
}
