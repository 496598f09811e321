package steps_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/courierhq/courier"
)

var update = flag.Bool("update", false, "write docs/step-types.md")

const introduction = `# Step types

Generated from the code by ` + "`go test ./steps -run Documentation -update`" + `. The markers of branches and loops, and how a configuration refers to
outputs, params and secrets, are in [flow.md](flow.md).

Each type says what happens when an attempt is repeated, and what is cleaned up before that, or when the execution fails or is
cancelled. Where two types are in one section, a field that only one of them has is marked with it. No number of a configuration is negative.
Without a line about it, a type has no timeout, and fails after 60 s without progress. A field without a type is text.
`

// TestDocumentation holds docs/step-types.md against the types themselves; run
// it with -update after a change.
func TestDocumentation(t *testing.T) {
	p := newPage(t, registry())
	var b strings.Builder
	b.WriteString(introduction)
	b.WriteString("\n## Other names\n\nThe types `ftp.*` are `ftps.*` too; " + strings.Join(p.aliases, ", ") + ".\n")
	b.WriteString("\n## Fields of several types\n\nThey are not repeated below.\n")
	writeList(&b, "Configuration", p.common, "")
	writeList(&b, "Output", p.outputs, "")
	fmt.Fprintf(&b, "\nThe *usual cleanup* %s.\n\n", p.cleanup)
	for _, s := range saidOnce {
		fmt.Fprintf(&b, "- %s\n", s.rule)
	}
	for _, s := range p.sections {
		p.write(&b, s)
	}
	whole := b.String()
	for _, s := range saidOnce {
		if n := strings.Count(whole, s.clause); n < 3 {
			t.Errorf("%q is in the documentation %d times: it need not be said at the top", s.clause, n)
		}
		whole = strings.ReplaceAll(whole, s.clause, "")
	}
	path := filepath.Join("..", "docs", "step-types.md")
	if *update {
		if err := os.WriteFile(path, []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != whole {
		t.Errorf("%s is not what the types say (%v); run: go test ./steps -run Documentation -update", path, err)
	}
}

// saidOnce are clauses in the documentation of many fields and types, which editors and forms
// show alone. The page has a rule at its top instead.
var saidOnce = []struct{ clause, rule string }{
	{", in the attempt's own directory, or in this directory if it exists or ends in /", "An output path that is an existing directory, or ends in a slash, means a file in it; by default the file is in the attempt's own directory."},
	{", or with a slash at its end the directory for it", "The output paths of pgp are directories only if they end in a slash."},
	{"; taken from the login directory unless it begins with a slash", "A path on a server is taken from the login directory unless it begins with a slash."},
	{", such as *.csv, {a,b}-*, or **/*.csv for all directories below too", "A pattern is one such as *.csv, {a,b}-*, or **/*.csv for all directories below too."},
	{", so it is the old one or the new one", "A file that is overwritten is the old one or the new one at any time."},
	{": the file gets its name when it is complete", "A type that *overwrites* gives the file its name when it is complete."},
	{", the first if there are several", "An output such as `copied_file` is the first of several."},
	{", in bytes", "Sizes are in bytes."},
	{": looks again", "A type that *reads only* looks again."},
}

// twins are types that are documented in the section of another one. Those of ftp are in the
// section of the type of sftp with the same verb.
var twins = map[string]string{"file.zstd": "file.gzip", "file.unzstd": "file.gunzip"}

// A section documents one type, or two that have most fields in common.
type section struct {
	types          []*courier.StepType
	config, output []field
}

// A field is an item of a list: its name, the type that it is marked with if others in the section
// lack it, its type, its meaning, what may be written in it, and the group that it belongs to.
type field struct{ name, mark, typ, doc, values, group string }

func (f field) write(b *strings.Builder) {
	var about []string
	if f.mark != "" {
		about = append(about, f.mark)
	}
	if f.typ != "text" {
		about = append(about, f.typ)
	}
	if f.values != "" {
		about = append(about, f.values)
	}
	fmt.Fprintf(b, "- `%s`", f.name)
	if len(about) > 0 {
		fmt.Fprintf(b, " (%s)", strings.Join(about, ", "))
	}
	fmt.Fprintf(b, ": %s\n", f.doc)
}

// A page is what docs/step-types.md has.
type page struct {
	sections []*section
	aliases  []string
	common   []field // fields of configurations that several sections have
	outputs  []field // fields of outputs that several sections have
	cleanup  string  // what most types clean up
	shown    map[string]json.RawMessage
}

func newPage(t *testing.T, reg *courier.Registry) *page {
	p := &page{shown: examples(t)}
	byKey := make(map[string]*section)
	for _, key := range reg.Keys() {
		typ, _ := reg.Lookup(key)
		if typ.Key() != key {
			if "ftp."+strings.TrimPrefix(key, "ftps.") != typ.Key() { // the introduction says that of the others
				p.aliases = append(p.aliases, fmt.Sprintf("`%s` is `%s`", key, typ.Key()))
			}
			continue
		}
		documented(t, typ)
		of := cmp.Or(twins[key], key)
		if verb, ok := strings.CutPrefix(key, "ftp."); ok {
			of = "sftp." + verb
		}
		if byKey[of] == nil {
			byKey[of] = new(section)
			p.sections = append(p.sections, byKey[of])
		}
		s := byKey[of]
		s.types = append(s.types, typ)
		if key == of && len(s.types) > 1 { // the twin came first
			slices.Reverse(s.types)
		}
	}
	slices.SortFunc(p.sections, func(a, b *section) int { return cmp.Compare(a.types[0].Key(), b.types[0].Key()) })
	cleanups := make(map[string]int)
	var configs, outputs [][]field
	for _, s := range p.sections {
		s.config = s.merged(t, "the configuration", (*courier.StepType).Config)
		s.output = s.merged(t, "the output", (*courier.StepType).Output)
		configs, outputs = append(configs, s.config), append(outputs, s.output)
		if text := s.types[0].CleanupDoc(); text != "" {
			cleanups[text]++
		}
	}
	p.common, p.outputs = repeated(configs, 2), repeated(outputs, 2)
	for text, n := range cleanups {
		if n > cleanups[p.cleanup] || n == cleanups[p.cleanup] && text < p.cleanup {
			p.cleanup = text
		}
	}
	return p
}

// repeated returns the fields that so many lists at least have in the same words, and three if
// others have another field of the name; one for each name.
func repeated(lists [][]field, least int) (all []field) {
	times, meanings := make(map[field]int), make(map[string]int)
	for _, f := range slices.Concat(lists...) {
		if times[f]++; times[f] == 1 {
			meanings[f.name]++
		}
	}
	for f, n := range times {
		if (n > 2 || n >= least && meanings[f.name] == 1) && f.mark == "" && len(strings.Fields(f.doc))+len(strings.Fields(f.values)) > 2 && f.group == "" {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b field) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(times[b], times[a]), cmp.Compare(a.doc, b.doc))
	})
	return slices.CompactFunc(all, func(a, b field) bool { return a.name == b.name }) // the most frequent meaning
}

// documented checks that a type says all that the page needs.
func documented(t *testing.T, typ *courier.StepType) {
	t.Helper()
	key := typ.Key()
	if typ.Doc() == "" {
		t.Errorf("%s has no documentation in its TypeOptions", key)
	}
	if typ.RepeatDoc() == "" {
		t.Errorf("%s does not say in its TypeOptions what a repetition does", key)
	}
	if (typ.CleanupDoc() != "") != typ.RollsBack() {
		t.Errorf("%s has a Cleanup or Rollback: %v; its TypeOptions say of that %q", key, typ.RollsBack(), typ.CleanupDoc())
	}
}

// mark is what tells one type of the section from the others.
func (s *section) mark(typ *courier.StepType) string {
	family, verb, _ := strings.Cut(typ.Key(), ".")
	for _, other := range s.types {
		if _, v, _ := strings.Cut(other.Key(), "."); v != verb {
			return verb
		}
	}
	return family
}

// merged returns the fields of all types of the section. A field that one of them lacks, or has
// with another meaning, is marked.
func (s *section) merged(t *testing.T, what string, schema func(*courier.StepType) *courier.Schema) []field {
	t.Helper()
	lists := make([][]field, len(s.types))
	for i, typ := range s.types {
		lists[i] = rows(t, typ.Key()+": "+what, "", schema(typ))
	}
	var all []field
	for i, list := range lists {
		at := 0
		for _, f := range list {
			everywhere := !slices.ContainsFunc(lists, func(other []field) bool { return !slices.Contains(other, f) })
			if !everywhere {
				f.mark = s.mark(s.types[i])
			}
			if j := slices.Index(all, f); j >= 0 {
				at = j + 1
				continue
			}
			if j := slices.IndexFunc(all, func(other field) bool { return other.name == f.name }); j >= 0 {
				at = j + 1
			}
			all = slices.Insert(all, at, f)
			at++
		}
	}
	return all
}

// write writes a section.
func (p *page) write(b *strings.Builder, s *section) {
	var keys []string
	for _, typ := range s.types {
		keys = append(keys, typ.Key())
	}
	fmt.Fprintf(b, "\n## %s\n\n", strings.Join(keys, ", "))
	first := s.types[0]
	doc := sentence(first.Doc()) + "."
	for _, other := range s.types[1:] {
		switch text := sentence(other.Doc()) + "."; text {
		case strings.ReplaceAll(doc, "SFTP", "FTP"):
			doc = strings.ReplaceAll(doc, "SFTP", "SFTP or FTP")
		default:
			doc += " " + text
		}
	}
	fmt.Fprintf(b, "%s\n\n```json\n{\"type\": %q, \"config\": %s}\n```\n\n", doc, first.Key(), p.shown[first.Key()])
	p.each(b, s, "Repetition", (*courier.StepType).RepeatDoc)
	p.each(b, s, "Cleanup", func(typ *courier.StepType) string {
		if typ.CleanupDoc() == p.cleanup {
			return "usual"
		}
		return typ.CleanupDoc()
	})
	p.each(b, s, "Timeout", func(typ *courier.StepType) string {
		if typ.Timeout() == 0 && typ.Stall() == time.Minute {
			return ""
		}
		if typ.Stall() > 0 {
			return fmt.Sprintf("%s; %s without progress", duration(typ.Timeout()), duration(typ.Stall()))
		}
		return duration(typ.Timeout())
	})
	writeFields(b, "Configuration", s.config, p.common)
	writeFields(b, "Output", s.output, p.outputs)
}

// writeFields writes a list of the fields that are not common, and the names of the others.
func writeFields(b *strings.Builder, title string, all, common []field) {
	var own []field
	var names []string
	for _, f := range all {
		if slices.Contains(common, f) {
			names = append(names, "`"+f.name+"`")
		} else {
			own = append(own, f)
		}
	}
	also := ""
	if len(names) > 0 {
		also = "[also](#fields-of-several-types) " + strings.Join(names, ", ")
	}
	writeList(b, title, own, also)
}

// each writes a property of the types of a section, once if it is the same for all.
func (p *page) each(b *strings.Builder, s *section, name string, of func(*courier.StepType) string) {
	same := true
	for _, typ := range s.types {
		same = same && of(typ) == of(s.types[0])
	}
	for _, typ := range s.types {
		switch text := of(typ); {
		case text == "":
		case same:
			fmt.Fprintf(b, "- **%s**: %s\n", name, text)
			return
		default:
			fmt.Fprintf(b, "- **%s** (%s): %s\n", name, s.mark(typ), text)
		}
	}
}

// duration is a limit in words.
func duration(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return fmt.Sprintf("%g s", d.Seconds())
}

// writeList writes a list of fields, with the names of others beside its title.
func writeList(b *strings.Builder, title string, list []field, also string) {
	if len(list) == 0 && also == "" {
		return
	}
	fmt.Fprintf(b, "\n**%s**", title)
	if also != "" {
		fmt.Fprintf(b, ", %s", also)
	}
	b.WriteString(":\n\n")
	var groups []string
	for _, f := range list {
		f.write(b)
		if f.group != "" && !slices.Contains(groups, f.group) {
			groups = append(groups, f.group)
		}
	}
	if len(groups) > 0 {
		fmt.Fprintf(b, "\n%s\n", strings.Join(groups, " "))
	}
}

// rows describes the fields of an object, and those of the objects in it, by their
// names with prefix before them.
func rows(t *testing.T, where, prefix string, s *courier.Schema) (all []field) {
	t.Helper()
	for _, p := range s.Properties {
		name := prefix + p.Name
		if p.Doc == "" {
			t.Errorf("%s: the field %s has no doc tag", where, name)
		}
		var more []string
		if p.Required {
			more = append(more, "required")
		}
		if p.Default != "" {
			more = append(more, "default `"+p.Default+"`")
		}
		if p.Alias != "" {
			more = append(more, "also `"+p.Alias+"`")
		}
		more = append(more, values(p.Schema, p.Doc)...)
		group := ""
		for _, g := range s.Groups {
			if slices.Contains(g.Fields, p.Name) {
				how := map[string]string{"one_of": "Exactly one", "any_of": "At least one", "at_most_one": "At most one"}[g.Kind]
				group = how + " of `" + strings.Join(g.Fields, "`, `") + "` is given."
			}
		}
		all = append(all, field{name: name, typ: typeName(p.Schema), doc: sentence(p.Doc), values: strings.Join(more, ", "), group: group})
		if p.Schema.Type == "object" {
			all = append(all, rows(t, where, name+".", p.Schema)...)
		}
	}
	return all
}

// values describes what a field may be, as far as its documentation does not say it.
func values(s *courier.Schema, doc string) (all []string) {
	if s.Items != nil {
		s = s.Items
	}
	if slices.ContainsFunc(s.Enum, func(value string) bool { return !strings.Contains(doc, value) }) {
		all = append(all, "one of `"+strings.Join(s.Enum, "`, `")+"`")
	}
	if s.Min != "" && s.Min != "0" {
		all = append(all, "at least "+s.Min.String())
	}
	if s.Max != "" && len(s.Max.String()) < 10 {
		all = append(all, "at most "+s.Max.String())
	}
	return all
}
