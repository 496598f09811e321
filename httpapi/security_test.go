package httpapi_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/httpapi"
	"github.com/courierhq/courier/store/memstore"
)

// The document says how requests prove who makes them: as the host says, or as the answers
// with 401 do. Operations for which nobody is asked need nothing.
func TestSecuritySchemes(t *testing.T) {
	type object = map[string]any
	for _, c := range []struct {
		name      string
		challenge string
		schemes   map[string]access.SecurityScheme
		want      object
		log       []string
	}{
		{"default", "", nil, object{"bearer": object{"type": "http", "scheme": "bearer"}}, nil},
		{"challenge", `Basic realm="x"`, nil, object{"basic": object{"type": "http", "scheme": "basic"}}, nil},
		{"none", "", map[string]access.SecurityScheme{}, object{}, nil},
		{"two", "", map[string]access.SecurityScheme{
			"token": {Type: "http", Scheme: "bearer", BearerFormat: "JWT", Description: "of the directory"}, "key": {Type: "apiKey", In: "header", Name: "X-Key"},
		}, object{
			"token": object{"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": "of the directory"},
			"key":   object{"type": "apiKey", "in": "header", "name": "X-Key"},
		}, nil},
		{"bad ones", "", map[string]access.SecurityScheme{
			"a b": {Type: "mutualTLS"}, "b": {Type: "htp"}, "c": {Type: "http"}, "d": {Type: "apiKey", In: "body", Name: "k"}, "e": {Type: "openIdConnect"}, "f": {Type: "mutualTLS"},
		}, object{"f": object{"type": "mutualTLS"}}, []string{"a b", "letters", "needs Scheme", "as In", "OpenIDConnectURL", "Options.Access.Schemes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := policy()
			a.Challenge, a.Schemes = c.challenge, c.schemes
			w := newWorld(t, memstore.New(), &httpapi.Options{Access: a})
			var got struct {
				Security   []map[string][]string
				Components struct{ SecuritySchemes object }
				Paths      map[string]map[string]struct{ Security *[]any }
			}
			if err := json.Unmarshal(w.api.OpenAPI(), &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Components.SecuritySchemes, c.want) || len(got.Security) != len(c.want) {
				t.Errorf("schemes %v, security %v; want %v", got.Components.SecuritySchemes, got.Security, c.want)
			}
			for _, one := range got.Security {
				for name, scopes := range one {
					if c.want[name] == nil || len(one) != 1 || scopes == nil {
						t.Errorf("security %v", got.Security)
					}
				}
			}
			if open := got.Paths["/v1/livez"]["get"].Security; open == nil || len(*open) != 0 {
				t.Errorf("livez needs %v", open)
			}
			if own := got.Paths["/v1/executions"]["get"].Security; own != nil {
				t.Errorf("a list of executions needs %v", *own)
			}
			for _, text := range c.log {
				if !strings.Contains(w.log.String(), text) {
					t.Errorf("the log lacks %q: %s", text, w.log)
				}
			}
			if c.log == nil && strings.Contains(w.log.String(), "schemes") {
				t.Errorf("the log says %s", w.log)
			}
		})
	}
}
