package dashboard

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier/dashboard/internal/format"
	"github.com/courierhq/courier/dashboard/internal/problem"
	"github.com/courierhq/courier/dashboard/internal/sheet"
	"github.com/courierhq/courier/internal/filter"
)

// The parameters of the URL of every page that has a list: the filter of its rows, and the name of
// the table that is requested as CSV.
const (
	textParam = "text"
	csvParam  = "csv"
)

// A lister is the data of a page that has lists. Only the first table can have further pages.
type lister interface{ tables() []*table }

// A table is a list of a page as its filter and its CSV use it: rows of cells with the values that
// the visitor may see.
type table struct {
	name    string // in its link, and in the name of the file
	columns []string
	cells   func() [][]string // of the present rows
	keep    func(is func(i int) bool)
	add     func(other *table) // adds the rows of the same table from the next page
	settled func()             // called after rows were removed; nil for none
	rows    any                // the *[]T of tableOf
	next    *string            // reference of the next page; empty for none, nil for a table of one page
	left    int                // further rows that are no longer available
}

// tableOf returns the table of the rows of a page. Cells returns the values of a row, one for each
// column. Next is the reference of the next page. It is nil if there never is one.
func tableOf[T any](name string, rows *[]T, next *string, columns []string, cells func(r *T) []any) *table {
	t := &table{name: name, columns: columns, rows: rows, next: next}
	t.cells = func() (all [][]string) {
		for i := range *rows {
			all = append(all, sheet.Texts(cells(&(*rows)[i])))
		}
		return all
	}
	t.keep = func(is func(i int) bool) {
		kept := (*rows)[:0:0]
		for i := range *rows {
			if is(i) {
				kept = append(kept, (*rows)[i])
			}
		}
		*rows = kept
	}
	t.add = func(other *table) { *rows = append(*rows, *other.rows.(*[]T)...) }
	return t
}

// filter removes the rows that a filter does not select.
func (t *table) filter(f *filter.Text) {
	cells := t.cells()
	t.keep(func(i int) bool { return f.Selects(cells[i]) })
	if t.settled != nil {
		t.settled()
	}
}

// How much is read for a list with a filter, and for a CSV file.
const (
	listReads = 20       // pages of a list that are read for one page of selected rows
	enoughRow = 25       // number of selected rows that fill a page
	csvRows   = 10_000   // of a file
	csvBytes  = 16 << 20 // approximate size of a file
)

// Listed reports whether the list of the page has rows.
func (p *executionPage) Listed() bool {
	tables := p.tables()
	return len(tables) == 0 || len(tables[0].cells()) > 0
}

// A listView has the state of the filter of a page's lists.
type listView struct {
	Text   string    // as it was written
	Hidden []navItem // the other parameters of the address, by names and values
	Links  []navItem // the tables as CSV
	Looked string    // why the page has fewer rows than the limit
}

// data returns the data of the page. Its lists have only the rows that the filter in the address
// selects. Further pages are read until there are enough selected rows.
func (c *call) data() (any, error) {
	streams := c.wrote // the answer is a stream of changes
	data, err := c.page.data(c)
	l, ok := data.(lister)
	if err != nil || c.wrote && !streams || !ok {
		return data, err
	}
	tables := l.tables()
	if len(tables) == 0 {
		return data, nil
	}
	if c.listed = c.listView(tables); c.listed.Text == "" && !slices.ContainsFunc(tables, func(t *table) bool { return len(t.cells()) > 0 }) {
		c.listed = nil // there is nothing to filter
	}
	f, err := c.textFilter()
	if err != nil || f.Empty() {
		return data, err
	}
	for _, t := range tables {
		t.filter(&f)
	}
	main, was := tables[0], c.query
	defer func() { c.query = was }()
	for reads := 1; main.next != nil && *main.next != "" && len(main.cells()) < enoughRow; reads++ {
		if reads == listReads {
			c.listed.Looked = "Few of the searched rows match. The next page continues after them."
			break
		}
		more, err := c.following(main)
		if err != nil {
			return nil, err
		}
		more.filter(&f)
		main.add(more)
		*main.next = *more.next
	}
	return data, nil
}

// textFilter returns the filter in the address.
func (c *call) textFilter() (f filter.Text, err error) {
	text := c.query.Get(textParam)
	if utf8.RuneCountInString(text) > maxSearch {
		return f, problem.Invalid("The filter of rows has more than %d characters.", maxSearch)
	}
	return filter.ParseText(text), nil
}

// following reads the next page of a table.
func (c *call) following(t *table) (*table, error) {
	_, query, _ := strings.Cut(*t.next, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, err
	}
	c.query = q
	data, err := c.page.data(c)
	if err != nil {
		return nil, err
	}
	if l, ok := data.(lister); ok {
		for _, more := range l.tables() {
			if more.name == t.name {
				return more, nil
			}
		}
	}
	return nil, problem.ErrNoPage
}

func (c *call) listView(tables []*table) *listView {
	v := &listView{Text: strings.TrimSpace(c.query.Get(textParam))}
	for name, values := range c.query {
		if name != textParam && !slices.Contains(everywhere, name) && !isCursor(name) {
			v.Hidden = append(v.Hidden, navItem{Label: name, Href: values[0]})
		}
	}
	slices.SortFunc(v.Hidden, func(a, b navItem) int { return strings.Compare(a.Label, b.Label) })
	for _, t := range tables {
		link := navItem{Label: "CSV", Href: c.with(csvParam, t.name, "cursor", "", "after", "", "before", "", "from", "", "fold", "")}
		if len(tables) > 1 {
			link.Label = "CSV of " + t.name
		}
		v.Links = append(v.Links, link)
	}
	return v
}

// isCursor reports whether a parameter says where a page of a list begins.
func isCursor(name string) bool {
	return slices.Contains([]string{"cursor", "after", "before", "from"}, name)
}

// Filtered reports whether the lists of the page have only the rows that a filter selects.
func (v *view) Filtered() bool { return v.List != nil && v.List.Text != "" }

// csv answers with a table of the page, with the selected rows of all its pages.
func (c *call) csv() error {
	name := c.query.Get(csvParam)
	f, err := c.textFilter()
	if err != nil {
		return err
	}
	data, err := c.page.data(c)
	if err != nil || c.wrote {
		return err
	}
	var t *table
	if l, ok := data.(lister); ok {
		for _, of := range l.tables() {
			if of.name == name {
				t = of
			}
		}
	}
	if t == nil {
		return problem.Invalid("There is no list of this name on the page.")
	}
	book := new(sheet.Book)
	book.Add(t.columns)
	for rows := 0; ; {
		for _, cells := range t.cells() {
			if !f.Selects(cells) {
				continue
			}
			if rows++; rows > csvRows || book.Len() > csvBytes {
				last := make([]string, len(t.columns))
				last[0] = "There are more rows than the first " + format.Count(rows-1) + ", which are here. Use the filter of the list to narrow it down."
				book.Add(last)
				return c.attach(t.name, book)
			}
			book.Add(cells)
		}
		if t.next == nil || *t.next == "" {
			if t.left > 0 {
				last := make([]string, len(t.columns))
				last[0] = "There were " + format.Count(t.left) + " more rows, which are not kept."
				book.Add(last)
			}
			return c.attach(t.name, book)
		}
		if err := c.ctx().Err(); err != nil {
			return err
		}
		if t, err = c.following(t); err != nil {
			return err
		}
	}
}

// attach answers with a CSV file.
func (c *call) attach(name string, book *sheet.Book) error {
	c.w.Header().Set("Content-Disposition", `attachment; filename="`+strings.ReplaceAll(name, " ", "-")+`.csv"`)
	c.write(http.StatusOK, "text/csv; charset=utf-8", book.Bytes())
	return nil
}
