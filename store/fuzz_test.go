package store_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/store"
)

// FuzzSetting checks that the value of a limit that is accepted is a number
// that every store can hold, and that scopes survive as names of settings.
func FuzzSetting(f *testing.F) {
	limit := store.LimitSetting("")
	for _, v := range []string{"", "0", "5", "-1", "+5", "-0", "2147483647", "2147483648", "1e3", "0x10", "1_0", " 1", "٣", "many"} {
		f.Add(limit, v)
		f.Add(store.LimitSetting("job:a"), v)
		f.Add("theme", v)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		scope, isLimit := store.LimitScope(key)
		if isLimit && store.LimitSetting(scope) != key {
			t.Errorf("%q is the limit of %q, whose setting is %q", key, scope, store.LimitSetting(scope))
		}
		if got, ok := store.LimitScope(store.LimitSetting(value)); !ok || got != value {
			t.Errorf("the setting of scope %q is of %q, %t", value, got, ok)
		}
		err := store.CheckSetting(key, value)
		if err != nil {
			if !errors.Is(err, courier.ErrInvalid) || !isLimit || value == "" {
				t.Errorf("CheckSetting(%q, %q) = %v", key, value, err)
			}
			if strings.Trim(value, "0123456789") == "" && len(value) < 10 {
				t.Errorf("%q is refused: %v", value, err)
			}
			return
		}
		if isLimit && value != "" {
			if n, err := strconv.Atoi(value); err != nil || n < 0 || n > math.MaxInt32 {
				t.Errorf("%q is accepted as a limit: %d, %v", value, n, err)
			}
		}
	})
}
