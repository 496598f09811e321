package couriertest_test

import (
	"context"
	"testing"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/couriertest"
)

// greet is a step type.
type greet struct{}

type greetConfig struct {
	Name string `json:"name" courier:"required"`
}

type greetOutput struct {
	Text string `json:"text"`
}

func (greet) Execute(_ context.Context, _ *courier.Context, cfg greetConfig) (greetOutput, error) {
	return greetOutput{"hello " + cfg.Name}, nil
}

// In a program this is func TestGreet.
func testGreet(t *testing.T) {
	out, err := couriertest.RunStep(t, greet{}, map[string]any{"name": "Ada"}, t.TempDir(), 1)
	if err != nil || out.Text != "hello Ada" {
		t.Errorf("%+v, %v", out, err)
	}
}

// One attempt of one step, as an engine would make it.
func ExampleRunStep() { _ = testGreet }
