package pgp_test

import (
	"fmt"
	"log"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/pgp"
)

// The host holds the keys. Jobs name them, such as "recipient_key_ids": ["acme"].
func ExampleRegister() {
	ours, err := pgp.GenerateKey("Our Company", "invoices@us.example")
	if err != nil {
		log.Fatal(err)
	}
	keys := new(pgp.Keyring) // or pgp.OpenKeyring, which follows changes of a directory
	if err := keys.Add("ours", ours); err != nil {
		log.Fatal(err)
	}
	var reg courier.Registry
	pgp.Register(&reg, keys)
	fmt.Println(reg.Keys())
	// Output: [pgp.decrypt pgp.encrypt pgp.sign pgp.verify]
}
