package azure_test

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/azure"
)

// The host holds the addresses and keys of function apps. Jobs name them by an id,
// such as "connection_id": "billing".
func ExampleRegister() {
	var reg courier.Registry
	azure.Register(&reg, &azure.Options{Connections: azure.Map{
		"billing": {URL: "https://acme.azurewebsites.net", FunctionKey: "secret:billing"},
	}})
	fmt.Println(reg.Keys())
	// Output: [azure_function.execute]
}
