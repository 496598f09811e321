package remote

import (
	"context"
	"strings"
	"testing"

	"github.com/courierhq/courier"
)

// FuzzSecret checks what the text of a credential stands for.
func FuzzSecret(f *testing.F) {
	for _, s := range []string{"", "secret:acme", "$secret:acme", "$$secret:x", "secret:", "word"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		asked := ""
		job := courier.NewContext(courier.ContextConfig{Secrets: func(_ context.Context, name string) (string, error) {
			asked = "secret:" + name
			return "resolved", nil
		}})
		defer job.Close()
		got, err := Secret(t.Context(), job, "password", text)
		switch {
		case err != nil:
			if !strings.HasPrefix(text, "secret:") {
				t.Errorf("%q: %v", text, err)
			}
		case asked != "":
			if asked != text || got != "resolved" {
				t.Errorf("%q asks for %q and is %q", text, asked, got)
			}
		case got != text && "$"+got != text:
			t.Errorf("%q is %q", text, got)
		}
	})
}
