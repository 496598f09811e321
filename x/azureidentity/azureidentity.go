// Package azureidentity gets the tokens of the step azure_function.execute by
// the Azure SDK for Go: by managed identities, workload identities,
// certificates, and whatever else azidentity has a credential for.
//
//	credential, err := azidentity.NewManagedIdentityCredential(nil)
//	...
//	connections := azure.Map{"acme": {
//		URL: "https://acme.azurewebsites.net", MasterKey: "secret:acme-master", AppID: "...",
//		Tokens: azureidentity.New(credential),
//	}}
//
// It is a module of its own, so that only programs that want the SDK link it.
// An application's id and secret need no SDK: azure.ClientCredentials.
package azureidentity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/steps/azure"
)

// A Source gets tokens by a credential of the Azure SDK, which keeps them until
// they end and is where they are renewed. Several goroutines may use it.
// Formatting it shows no keys.
type Source struct {
	credential azcore.TokenCredential
}

var _ azure.TokenSource = (*Source)(nil)

// New returns a source for a credential, such as one of azidentity. It must not
// be nil.
func New(credential azcore.TokenCredential) *Source {
	return &Source{credential: credential}
}

// String tells the kind of the credential.
func (s *Source) String() string { return fmt.Sprintf("credential %T", s.credential) }

// Format writes what String returns, whatever the verb.
func (s *Source) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// Token returns a token for scope, and when it ends. The error is one line. It
// is permanent if the authority has refused the credential, or if a person would
// have to log in; what may pass, such as an authority that can't be reached, is
// not.
func (s *Source) Token(ctx context.Context, scope string) (string, time.Time, error) {
	t, err := s.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
	switch {
	case err != nil && ctx.Err() != nil:
		return "", time.Time{}, context.Cause(ctx)
	case err != nil:
		return "", time.Time{}, s.fault(scope, err)
	case t.Token == "":
		return "", time.Time{}, fmt.Errorf("token for %s: %v returned none", scope, s)
	}
	return t.Token, t.ExpiresOn, nil
}

// fault says on one line what the SDK says on many, and whether it can pass.
func (s *Source) fault(scope string, err error) error {
	text, permanent := line(err.Error()), false
	if failed, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && failed.RawResponse != nil {
		code := failed.RawResponse.StatusCode
		permanent = code >= 400 && code < 500 && code != http.StatusRequestTimeout && code != http.StatusTooManyRequests
		text = fmt.Sprintf("the authority answers with status %d%s", code, words(failed.RawResponse))
	}
	if _, ok := errors.AsType[*azidentity.AuthenticationRequiredError](err); ok {
		permanent = true
	}
	if permanent {
		text += "; check the credential and what it may do"
	}
	// The SDK's own error is left out: its text is the whole answer.
	err = fmt.Errorf("token for %s: %v: %s", scope, s, text)
	if permanent {
		return courier.Permanent(err)
	}
	return err
}

// words is what an answer says went wrong.
func words(r *http.Response) string {
	body, err := runtime.Payload(r) // the SDK has read it
	if err != nil || len(body) == 0 {
		return ""
	}
	var answer struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error+answer.Description != "" {
		return ": " + line(strings.TrimSpace(answer.Error+" "+answer.Description))
	}
	return ": " + line(string(body))
}

// line is a text without line ends and rulers, and not longer than can be read.
func line(text string) string {
	const most = 500
	text = strings.ToValidUTF8(text, "\uFFFD")
	fields := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || !unicode.IsPrint(r) })
	kept := fields[:0]
	for _, f := range fields {
		if strings.Trim(f, "-=") != "" {
			kept = append(kept, f)
		}
	}
	runes := []rune(strings.Join(kept, " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}
