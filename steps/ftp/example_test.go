package ftp_test

import (
	"fmt"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/ftp"
)

// The host holds servers and credentials. Jobs name them by an id, such as
// "connection_id": "acme". The family is registered as ftp and as ftps.
func ExampleRegister() {
	var reg courier.Registry
	ftp.Register(&reg, ftp.Map{
		"acme": {Host: "ftp.acme.example", Username: "invoices", Password: "secret:acme"}, // explicit TLS
	})
	fmt.Println(len(reg.Keys()), reg.Keys()[0])
	// Output: 16 ftp.delete
}
