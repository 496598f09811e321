package exec_test

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/exec"
)

// Jobs run programs by the names that the host gives them, and no others.
func ExampleRegister() {
	var reg courier.Registry
	exec.Register(&reg, &exec.Options{Programs: map[string]exec.Program{"convert": {Path: "/usr/local/bin/convert"}}})
	fmt.Println(reg.Keys())
	// Output: [exec.run]
}
