package httpapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/courierhq/courier"
	"github.com/courierhq/courier/chain"
	"github.com/courierhq/courier/engine/dryrun"
	"github.com/courierhq/courier/internal/definitiondiff"
	"github.com/courierhq/courier/internal/desk"
	"github.com/courierhq/courier/store"
)

// A DefinitionView is a version of a job or a chain. The object in the field job or chain can be
// changed and sent back with PUT. Both kinds have the same form, and its warnings are items of a
// problem document, so it is neither a [courier.DefinedJob] nor a [chain.Defined].
type DefinitionView struct {
	Job      *courier.Job `json:"job,omitempty"`
	Chain    *chain.Chain `json:"chain,omitempty"`
	SavedBy  string       `json:"saved_by,omitempty"`
	SavedAt  time.Time    `json:"saved_at,omitzero"`
	Warnings []item       `json:"warnings,omitempty"` // what looks doubtful, after PUT
}

// A DefinitionEntry is a version of a job or a chain in a list.
type DefinitionEntry struct {
	Name    string    `json:"name"`
	Version int       `json:"version"`
	SavedBy string    `json:"saved_by,omitempty"`
	SavedAt time.Time `json:"saved_at,omitzero"`
	Queue   string    `json:"queue,omitempty"`       // of a job
	Steps   int       `json:"steps,omitempty"`       // of a job: the number of entries in its list
	Members int       `json:"members,omitempty"`     // of a chain: the number of members
	About   string    `json:"description,omitempty"` // of a chain
}

func viewOf(d *desk.Defined) DefinitionView {
	v := DefinitionView{SavedBy: d.By, SavedAt: d.At, Warnings: itemsOf(d.Warnings)}
	v.Job, _ = d.Definition.(*courier.Job)
	v.Chain, _ = d.Definition.(*chain.Chain)
	return v
}

func entryOf(d *desk.Defined) DefinitionEntry {
	e := DefinitionEntry{Name: *d.Name(), Version: *d.Version(), SavedBy: d.By, SavedAt: d.At}
	switch v := d.Definition.(type) {
	case *courier.Job:
		e.Queue, e.Steps = v.Queue, len(v.Steps)
	case *chain.Chain:
		e.About, e.Members = v.Description, len(v.Members)
	}
	return e
}

var versionParam = param{name: "version", kind: "integer", does: "The version; the latest if it is not given."}

var jobRoutes = definitionRoutes("job", onJob, onVisible, courier.Job{}, dryrun.Report{})

// definitionRoutes are the routes of jobs, or of chains, which belong to no job.
func definitionRoutes(kind string, one, list scope, body, report any) []route {
	group, upper := kind+"s", strings.ToUpper(kind[:1])+kind[1:]
	path := "v1/" + group + "/{name}"
	with := func(do func(*call, desk.Catalog) error) func(*call) error {
		return func(c *call) error { return do(c, c.Catalog(kind)) }
	}
	return []route{
		{
			method: "GET", path: "v1/" + group, id: "list" + upper + "s", group: group, on: list,
			does: "Lists the latest versions of " + group + ", by name.",
			query: []param{
				{name: "q", kind: "string", does: "The beginning of the names."}, limitParam, cursorParam,
			},
			answers: map[int]any{http.StatusOK: page[DefinitionEntry]{}}, do: with((*call).listDefinitions),
		},
		{
			method: "GET", path: path, id: "get" + upper, group: group, on: one,
			does: "Returns a version of a " + kind + ". Its ETag is needed to change it.", query: []param{versionParam},
			answers: map[int]any{http.StatusOK: DefinitionView{}, http.StatusNotModified: nil}, do: with((*call).getDefinition),
		},
		{
			method: "PUT", path: path, id: "put" + upper, group: group, on: one,
			does:    "Saves a new version of a " + kind + ", unless it equals the latest one. The name in the body may be left out.",
			headers: []param{ifMatchHeader, ifNoneMatchHeader}, body: body,
			answers:  map[int]any{http.StatusCreated: DefinitionView{}, http.StatusOK: DefinitionView{}},
			problems: []*code{codePrecond, codeDefinition, codePreRequired}, do: with((*call).putDefinition),
		},
		{
			method: "DELETE", path: path, id: "remove" + upper, group: group, on: one,
			does: "Removes a " + kind + ". Nothing can be started of it until it is saved again. Its versions and executions stay. " +
				"It is refused while something uses the " + kind + " or an execution has not ended.",
			answers: map[int]any{http.StatusNoContent: nil}, problems: []*code{codeConflict}, do: with((*call).removeDefinition),
		},
		{
			method: "GET", path: path + "/versions", id: "list" + upper + "Versions", group: group, on: one,
			does: "Lists the versions of a " + kind + ", the newest first.", query: []param{limitParam, cursorParam},
			answers: map[int]any{http.StatusOK: page[DefinitionEntry]{}}, do: with((*call).listVersions),
		},
		{
			method: "GET", path: path + "/diff", id: "diff" + upper, group: group, on: one,
			does: "Compares two versions of a " + kind + ".",
			query: []param{
				{name: "from", kind: "integer", does: "The earlier version; the one before to if it is not given."},
				{name: "to", kind: "integer", does: "The later version; the latest if it is not given."},
			},
			answers: map[int]any{http.StatusOK: definitiondiff.Diff{}}, do: with((*call).diffDefinition),
		},
		{
			method: "POST", path: path + "/dry-run", id: "dryRun" + upper, group: group, on: one,
			does: "Tries a " + kind + " with real connections, and runs nothing. The report shows values, and needs the role that sees them; " +
				"a definition in the body needs the role editor.",
			body: DryRunRequest{}, optional: true, answers: map[int]any{http.StatusOK: report}, do: with((*call).dryRun),
		},
	}
}

// about is the job whose roles count for the route. It is empty for chains.
func (c *call) about() string {
	if c.route.on == onJob {
		return c.r.PathValue("name")
	}
	return ""
}

// maxListed is the number of definitions that one call examines to fill a page for the visitor.
const maxListed = 10_000

func (c *call) listDefinitions(d desk.Catalog) error {
	limit, err := c.int("limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	q := c.query.Get("q")
	if q != "" && !isName(q) {
		return oneProblem(item{Parameter: "q", Message: "it must be the beginning of a name"})
	}
	after, err := readNameCursor(c.query.Get("cursor"), q)
	if err != nil {
		return err
	}
	list, next, err := c.visible(d, q, after, limit)
	if err != nil {
		return err
	}
	return answerPage(c, list, writeNameCursor(next, q))
}

// visible returns up to limit definitions that the visitor may see, whose names begin with q and
// come after a name. Next is the name after which there may be more; empty if there are none.
func (c *call) visible(d desk.Catalog, q, after string, limit int) (list []DefinitionEntry, next string, err error) {
	if after == "" && q != "" {
		first, err := d.Saved(c.ctx(), q, 0) // the list begins after a name
		if err != nil && !errors.Is(err, courier.ErrNotFound) {
			return nil, "", err
		}
		if err == nil && d.Shows(c.ctx(), q) {
			list = append(list, entryOf(&first))
		}
		after = q
	}
	for examined := 0; examined < maxListed; {
		if len(list) == limit {
			return list, after, nil
		}
		most := min(limit-len(list), partSize) // each can be large
		if examined > 10*limit {
			most = 100 // the visitor may see only a few of them
		}
		page, err := d.Page(c.ctx(), store.DefinitionFilter{After: after, Limit: most})
		if err != nil {
			return nil, "", err
		}
		for i := range page {
			name := *page[i].Name()
			if !strings.HasPrefix(name, q) {
				return list, "", nil
			}
			if len(list) == limit {
				return list, after, nil
			}
			after = name
			if d.Shows(c.ctx(), name) {
				list = append(list, entryOf(&page[i]))
			}
		}
		if len(page) < most {
			return list, "", nil
		}
		examined += len(page)
	}
	return list, after, nil
}

// isName reports whether text can be a name, or the beginning of one.
func isName(text string) bool {
	return utf8.ValidString(text) && utf8.RuneCountInString(text) <= 200 && !strings.ContainsFunc(text, unicode.IsControl)
}

// writeNameCursor returns the cursor of the page after a name, in a list of names that begin with
// q. It is empty for an empty name.
func writeNameCursor(name, q string) string {
	if name == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(name)) + "." + nameMark(name, q)
}

func nameMark(name, q string) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%q %q", name, q)
	return fmt.Sprintf("%08x", h.Sum32())
}

// readNameCursor returns the name of a cursor; empty for an empty cursor.
func readNameCursor(cursor, q string) (string, error) {
	if cursor == "" {
		return "", nil
	}
	text, mark, _ := strings.Cut(cursor, ".")
	name, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(name) == 0 || !isName(string(name)) || mark != nameMark(string(name), q) {
		return "", errCursor()
	}
	return string(name), nil
}

func (c *call) getDefinition(d desk.Catalog) error {
	version, err := c.int("version", 0, 1, 1<<30)
	if err != nil {
		return err
	}
	x, err := d.Saved(c.ctx(), c.r.PathValue("name"), version)
	if err != nil {
		return err
	}
	if c.tag(etag(&x)) {
		return nil
	}
	return c.answer(http.StatusOK, viewOf(&x))
}

// etag is the entity tag of a version of a definition.
func etag(d *desk.Defined) string { return `"v` + strconv.Itoa(*d.Version()) + `"` }

func (c *call) listVersions(d desk.Catalog) error {
	before, limit, err := c.after()
	if err != nil {
		return err
	}
	if before > 1<<30 {
		return errCursor()
	}
	version := func(d *desk.Defined) int {
		if v := *d.Version(); v > 1 {
			return v
		}
		return 0 // there is no next page
	}
	items, next, err := inParts(limit, partSize, int(before), func(before, limit int) ([]desk.Defined, int, error) {
		list, err := d.Versions(c.ctx(), c.r.PathValue("name"), store.VersionFilter{Before: before, Limit: limit})
		list, next := fullPage(list, limit, version)
		return list, next, err
	}, version, func(d *desk.Defined) any { return entryOf(d) })
	if err != nil {
		return err
	}
	return answerPage(c, items, numberCursor(int64(next)))
}

func (c *call) diffDefinition(d desk.Catalog) error {
	from, err := c.int("from", 0, 1, 1<<30)
	if err != nil {
		return err
	}
	to, err := c.int("to", 0, 1, 1<<30)
	if err != nil {
		return err
	}
	b, err := d.Get(c.ctx(), c.r.PathValue("name"), to)
	if err != nil {
		return err
	}
	if from == 0 {
		from = *b.Version() - 1
	}
	if from == 0 {
		return oneProblem(item{Parameter: "from", Message: "version 1 has none before it: name another version"})
	}
	a, err := d.Get(c.ctx(), c.r.PathValue("name"), from)
	if err != nil {
		return err
	}
	was, err := json.Marshal(a.Definition)
	if err != nil {
		return err
	}
	is, err := json.Marshal(b.Definition)
	if err != nil {
		return err
	}
	diff := definitiondiff.Of(was, is)
	diff.From, diff.To = *a.Version(), *b.Version()
	return c.answer(http.StatusOK, diff)
}

// mapped returns the results of f for the elements of a list.
func mapped[A, B any](list []A, f func(A) B) []B {
	all := make([]B, len(list))
	for i := range list {
		all[i] = f(list[i])
	}
	return all
}
