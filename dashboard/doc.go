// Package dashboard shows an engine to the people who operate it: as pages that a service
// mounts below any path.
//
//	mux.Handle("/courier/", dashboard.New(e, &dashboard.Options{Access: access.Local()}))
//
// The pages are rendered on the server and work without JavaScript. Without
// [Options.Access] they let nobody in. The API of package httpapi is
// below the path "api/" of the pages, under the same access.
//
// A page is a row of the table in pages.go: path, operation, function for its data, template.
// docs/dashboard.md says how to add one.
package dashboard
