package couriertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// definitions are what a program would embed.
var definitions = fstest.MapFS{
	"good.json": {Data: []byte(`{"name": "good", "steps": [{"type": "demo.nothing"}]}`)},
	"bad.json":  {Data: []byte(`{"name": "bad", "steps": [{"type": "demo.nohting"}]}`)},
}

func nothing(context.Context, *courier.Context, struct{}) (struct{}, error) { return struct{}{}, nil }

func TestCheck(t *testing.T) {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.nothing", nothing, nil)
	if b := couriertest.Check(t, definitions, reg, nil, "good.json"); len(b.Jobs) != 1 {
		t.Errorf("read %+v", b)
	}
	s := &spy{TB: t}
	couriertest.Check(s, definitions, reg, nil, "*.json")
	if !s.failed || !strings.Contains(fmt.Sprint(s.messages), `bad.json:1:36: step 0 (demo.nohting): type: unknown step type "demo.nohting"; did you mean "demo.nothing"?`) {
		t.Errorf("the test says %q", s.messages)
	}
}

// Check in a test of the files that a program deploys.
func ExampleCheck() {
	reg := new(courier.Registry)
	courier.RegisterFunc(reg, "demo.nothing", nothing, nil)
	test := func(t *testing.T) {
		couriertest.Check(t, definitions, reg, nil, "*.json")
	}
	_ = test // a function that go test runs
}
