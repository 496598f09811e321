// Package dashboard serves web pages to the people who operate an engine. A service mounts them
// below any path.
//
//	mux.Handle("/courier/", dashboard.New(e, &dashboard.Options{Access: access.Local()}))
//
// The pages are rendered on the server and work without JavaScript. Without [Options.Access] they
// refuse every visitor. The API of package httpapi is below the path "api/" of the pages, under the
// same access.
//
// A page is a row of the table in pages.go: path, operation, function for its data, template.
//
// A form is sent to the address of its page, and carried out between two entries in the journal.
// The answer is a redirect to a page that reads the second entry. In one process, the same form
// within a minute is the same action. Across processes, an action that creates something uses the
// hash of the form as its idempotency key. Control characters, and those that change the direction
// of text, are replaced by numbers in the text of every page after it was rendered. A live page
// sends the parts whose hashes have changed, at most twice a second. An item of a loop is found by
// bisection over the numbers of the records, which are in the order of execution. Pages are not
// compressed here: a proxy does that.
//
// # How to add a page
//
// Code of a page that needs no request is in a package below dashboard/internal. A page has a
// variable of type []page in a separate file. The function allPages lists these variables, in the
// order of the links at the top of all pages; nav.go has their groups. The comments of the types
// page and action describe the fields of a row. The page is in the table of docs/dashboard.md.
//
//   - Read through the visit in the call (c.Executions, c.Schedules, desk.Pick), and not through
//     the engine unless the scope of the row is enough. Call desk.HideValues and the like where
//     c.SeesValues is false. Templates read nothing.
//   - A page with lists has a method tables (tables.go), which the filter of its rows and its CSV
//     go by, {{template "listbar" $}} above the list, and {{template "unmatched" $}} where
//     $.Filtered and there are no rows.
//   - Make references with c.link and c.with, or .Link and .With of the view. They are relative.
//     No template has a path that begins with a slash.
//   - Write people's text as {{clip 80 .Name}} within bdi, and long text by {{template "text"
//     .}}. A name within a sentence stands between quotation marks. Text areas stay as they are;
//     editable escapes JSON for them. Templates of several pages are in parts.html and
//     parts_NAME.html.
//   - A form is sent by POST to the address of its page, with the field key from $.Key and a
//     button named do, whose value is an action of the row. Show the button only where $.May has
//     the operation. The function changes the engine with c.by() and returns the page to go on
//     with; the handler writes the journal, and carries a form out once. A dry action changes
//     nothing: its result is in c.found, and an error in c.failed. c.warn keeps warnings for the
//     page that comes next. What a form has led to has tabindex="-1" autofocus, and the button
//     that goes on is behind it. The form of a definition has data-saves, and its page the
//     script unsaved.
//   - A live part is a template of its own, which {{$.Fragment "list" "Label"}} puts into main.
//     It is the same text while nothing has changed: instants are absolute, and scripts add how
//     long ago they are. {{time .At}} is in UTC until [view.finished] shows it in the zone that the
//     visitor's browser has named by a cookie.
//   - No style, no inline script, no colour alone: a status is a badge, and figures are SVG
//     attributes. A table has a caption, and scope on each th. A row that keys walk through has
//     data-row, a failed one data-failed, the box of buttons data-actions; each td has the name
//     of its column in data-label. There is one h1, which the layout writes. A page whose rows
//     can be selected has the script select.
//   - Test it as a tree in virtual time (virtual, w.get, w.post, w.fails), for every role,
//     empty, and with the names in hostile; add it to evil in hostile_test.go. Look at it in the
//     pictures of dashboard/browser, which finds it by its links.
package dashboard
