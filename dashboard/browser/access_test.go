package browser

import (
	"net/http"

	"github.com/courierhq/courier/dashboard"
	"github.com/courierhq/courier/httpapi"
)

// forAnn are the options of pages on which everybody is ann, an admin.
var forAnn = &dashboard.Options{Access: httpapi.Access{Who: func(*http.Request) (httpapi.Principal, error) {
	return httpapi.Principal{ID: "ann", Name: "Ann"}, nil
}}}
