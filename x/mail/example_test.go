package mail_test

import (
	"context"
	"log"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/engine"
	"github.com/courierhq/courier/store/memstore"
	"github.com/courierhq/courier/x/mail"
)

// An engine with a mailer delivers subscriptions of kind email.
func ExampleNew() {
	password := func(context.Context) (string, error) { return "from a vault", nil }
	m, err := mail.New(mail.Options{Host: "smtp.example.com", From: "courier@example.com", Username: "courier", Password: password})
	if err != nil {
		log.Fatal(err)
	}
	engine.New(memstore.New(), new(courier.Registry), &engine.Options{Mailer: m})
	// Output:
}
