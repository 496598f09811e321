package desk

import (
	"slices"
	"testing"
)

// What begins with a text is found wherever it stands in the list, with the text itself.
func TestBegin(t *testing.T) {
	names := []string{" a", "A", "a", "a b", "ab", "a\U0010FFFF", "b", "\uE000", "\uE000x", "é"}
	slices.Sort(names)
	read := func(after string, limit int) ([]string, error) {
		i, there := slices.BinarySearch(names, after)
		if there {
			i++
		}
		return names[i:min(len(names), i+limit)], nil
	}
	same := func(name *string) string { return *name }
	for text, want := range map[string][]string{
		"a": {"a", "a b", "ab", "a\U0010FFFF"}, "a ": {"a b"}, " ": {" a"}, "\uE000": {"\uE000", "\uE000x"}, "é": {"é"}, "c": nil, "B": nil,
	} {
		got, err := begin(text, read, same, func(*string) bool { return true })
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

// A page has what somebody may see; the next one goes on behind it.
func TestPick(t *testing.T) {
	const n = 2*maxWalk - 1
	read := func(after string, limit int) (page []string, _ error) {
		first := 0
		if after != "" {
			first = int([]rune(after)[0]) - 'a' + 1
		}
		for i := first; i < n && len(page) < limit; i++ {
			page = append(page, string(rune('a'+i)))
		}
		return page, nil
	}
	same := func(s *string) string { return *s }
	for name, c := range map[string]struct {
		sees  func(int) bool
		limit int
		want  int // elements of the first page
		pages int
	}{
		"all":           {func(int) bool { return true }, 1000, 1000, 20},
		"none":          {func(int) bool { return false }, 10, 0, 2},
		"the last one":  {func(i int) bool { return i == n-1 }, 10, 0, 2},
		"each tenth":    {func(i int) bool { return i%10 == 0 }, 1000, 1000, 3},
		"a few at once": {func(i int) bool { return i < 5 }, 10, 5, 2},
	} {
		var all, wanted []string
		pages := 0
		for after := ""; ; pages++ {
			list, next, err := Pick(after, c.limit, read, same, func(s *string) bool { return c.sees(int([]rune(*s)[0]) - 'a') })
			if err != nil || pages == 0 && len(list) != c.want || pages > 100 {
				t.Fatalf("%s: %d elements on page %d, %v", name, len(list), pages, err)
			}
			all = append(all, list...)
			if after = next; next == "" {
				break
			}
		}
		for i := range n {
			if c.sees(i) {
				wanted = append(wanted, string(rune('a'+i)))
			}
		}
		if !slices.Equal(all, wanted) || pages+1 != c.pages {
			t.Errorf("%s: %d elements on %d pages, not %d on %d", name, len(all), pages+1, len(wanted), c.pages)
		}
	}
}
