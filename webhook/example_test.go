package webhook_test

import (
	"fmt"
	"net/http"
	"time"

	"github.com/courierhq/courier/webhook"
)

// A receiver checks the signature before it looks into the body.
func ExampleVerify() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	body := []byte(`{"type": "JobFailed"}`)
	now := time.Now()
	signature, err := webhook.Sign("019a-7", now, body, secret) // as Courier does
	if err != nil {
		fmt.Println(err)
	}
	h := http.Header{}
	h.Set(webhook.HeaderID, "019a-7")
	h.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()))
	h.Set(webhook.HeaderSignature, signature)
	fmt.Println(webhook.Verify(h, body, secret))
	fmt.Println(webhook.Verify(h, []byte(`{"type": "JobCompleted"}`), secret) != nil)
	// Output:
	// <nil>
	// true
}
