package browser

import (
	"net/http"

	"github.com/courierhq/courier/access"
	"github.com/courierhq/courier/dashboard"
)

// forAnn are the options of pages on which everybody is ann, an admin.
var forAnn = &dashboard.Options{Access: access.Policy{Who: func(*http.Request) (access.Principal, error) {
	return access.Principal{ID: "ann", Name: "Ann"}, nil
}}}
