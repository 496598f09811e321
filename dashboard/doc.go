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
//
// A form is sent to the address of its page, and carried out between two entries of the journal;
// the answer is a redirect to a page that reads the second one. The same form within a minute is
// the same action in one process; across processes, what creates something has the hash of the
// form as its idempotency key. Control characters, and those that change the direction of text,
// are replaced by numbers in the text of every page after it was rendered. A live page sends the
// parts whose hashes have changed, at most twice a second. An item of a loop is found by
// bisection over the numbers of the records, which lie in the order of the walk. Pages are not
// compressed here: a proxy does that.
package dashboard
