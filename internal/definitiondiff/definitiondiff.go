// Package definitiondiff compares two versions of the definition of a job or a chain: which
// fields differ, and which steps or members were added, removed, changed or moved.
package definitiondiff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
)

// A Diff is what differs between two versions of a job or a chain.
type Diff struct {
	From    int          `json:"from"` // the versions
	To      int          `json:"to"`
	Fields  []Difference `json:"fields"`            // of the definition itself
	Steps   []PartDiff   `json:"steps,omitempty"`   // of a job, in the order of To; those that were removed stand last
	Members []PartDiff   `json:"members,omitempty"` // of a chain, likewise
}

// String lists what differs in few words, such as "/limit 2>3; added s2file.copy>0".
func (d Diff) String() string {
	var all []string
	for _, f := range d.Fields {
		all = append(all, fmt.Sprintf("%s %s>%s", f.Pointer, f.From, f.To))
	}
	for _, p := range slices.Concat(d.Steps, d.Members) {
		text := p.Change + " " + p.ID + p.Type
		if p.From != nil {
			text += fmt.Sprint(" ", *p.From)
		}
		if p.To != nil {
			text += fmt.Sprint(">", *p.To)
		}
		for _, f := range p.Fields {
			if f.Pointer != "" {
				text += fmt.Sprintf(" %s %s>%s", f.Pointer, f.From, f.To)
			}
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// A PartDiff is what has become of a step or a member. Steps are told from each other by
// their ids, so that one is the same step at another index; those without an id by what
// stands around them.
type PartDiff struct {
	Change string       `json:"change"` // added, removed, changed, or moved: it stands elsewhere among the others, and may have changed besides
	ID     string       `json:"id,omitempty"`
	Type   string       `json:"type,omitempty"`
	From   *int         `json:"from,omitempty"` // the indexes
	To     *int         `json:"to,omitempty"`
	Fields []Difference `json:"fields,omitempty"`
}

// A Difference is a value that differs. One that is not there is left out.
type Difference struct {
	Pointer string          `json:"pointer"` // as of RFC 6901, in the definition, the step or the member; "" is the whole
	From    json.RawMessage `json:"from,omitempty"`
	To      json.RawMessage `json:"to,omitempty"`
}

// A part is a step or a member as JSON has it. There may be many, most of them the same in
// both versions: they are compared as texts, and decoded only where these differ.
type part struct {
	id   string // empty if it has none
	kind string // its type
	text json.RawMessage
	same string // with an id empty: the text in the form that is the same for the same values
}

// value returns the part decoded.
func (p *part) value() any { return decoded(p.text) }

// Of returns what differs between the JSON texts of two versions of a definition.
func Of(from, to []byte) Diff {
	a, b := fieldsOf(from), fieldsOf(to)
	d := Diff{Fields: []Difference{}}
	d.Steps = diffParts(partsOf(a, "steps"), partsOf(b, "steps"))
	d.Members = diffParts(partsOf(a, "members"), partsOf(b, "members"))
	delete(a, "version")
	delete(b, "version")
	d.Fields = append(d.Fields, differences("", values(a), values(b))...)
	return d
}

// fieldsOf returns the fields of a JSON object.
func fieldsOf(text []byte) (fields map[string]json.RawMessage) {
	_ = json.Unmarshal(text, &fields) // it was written by this process
	return fields
}

// values returns the fields decoded.
func values(fields map[string]json.RawMessage) map[string]any {
	v := make(map[string]any, len(fields))
	for name, text := range fields {
		v[name] = decoded(text)
	}
	return v
}

// decoded returns a JSON value, and keeps the digits of numbers.
func decoded(text []byte) (v any) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	_ = dec.Decode(&v) // it was written by this process
	return v
}

// partsOf takes the list of steps or members out of a definition.
func partsOf(definition map[string]json.RawMessage, name string) []part {
	var list []json.RawMessage
	_ = json.Unmarshal(definition[name], &list)
	delete(definition, name)
	parts := make([]part, len(list))
	for i, text := range list {
		var head struct{ ID, Name, Job, Type string }
		_ = json.Unmarshal(text, &head)
		p := &parts[i]
		*p = part{id: head.ID, kind: head.Type, text: text}
		if name == "members" {
			p.id = cmp.Or(head.Name, head.Job)
		}
		if p.id == "" {
			p.same = string(rawOf(p.value()))
		}
	}
	return parts
}

// rawOf returns a decoded value as JSON.
func rawOf(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // it was decoded from JSON
	return raw
}

// pointerEscapes writes a name as a part of a JSON pointer (RFC 6901).
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// differences returns what differs between two decoded values: of objects by their names,
// and lists as a whole.
func differences(pointer string, a, b any) (list []Difference) {
	x, isObject := a.(map[string]any)
	y, ok := b.(map[string]any)
	if !isObject || !ok {
		if from, to := rawOf(a), rawOf(b); !bytes.Equal(from, to) {
			list = append(list, Difference{pointer, from, to})
		}
		return list
	}
	names := make(map[string]bool)
	for name := range x {
		names[name] = true
	}
	for name := range y {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		from, was := x[name]
		to, is := y[name]
		at := pointer + "/" + pointerEscapes.Replace(name)
		switch {
		case was && is:
			list = append(list, differences(at, from, to)...)
		case was:
			list = append(list, Difference{Pointer: at, From: rawOf(from)})
		default:
			list = append(list, Difference{Pointer: at, To: rawOf(to)})
		}
	}
	return list
}

// diffParts returns what has become of the parts of a list.
func diffParts(from, to []part) (list []PartDiff) {
	fromOf, moved := pair(from, to)
	kept := make([]bool, len(from))
	for j := range to {
		b := &to[j]
		d := PartDiff{ID: b.id, Type: b.kind, To: &j}
		i := fromOf[j]
		if i < 0 {
			d.Change, d.Fields = "added", []Difference{{To: rawOf(b.value())}}
			list = append(list, d)
			continue
		}
		kept[i] = true
		d.From = &i
		if !bytes.Equal(from[i].text, b.text) {
			d.Fields = differences("", from[i].value(), b.value())
		}
		switch {
		case moved[j]:
			d.Change = "moved"
		case len(d.Fields) > 0:
			d.Change = "changed"
		default:
			continue
		}
		list = append(list, d)
	}
	for i := range from {
		if a := &from[i]; !kept[i] {
			list = append(list, PartDiff{Change: "removed", ID: a.id, Type: a.kind, From: &i, Fields: []Difference{{From: rawOf(a.value())}}})
		}
	}
	return list
}

// A partKey identifies a part: by its id, or else by what it says, and as which of several
// that say the same.
type partKey struct {
	text string
	nth  int
}

func keysOf(parts []part) []partKey {
	keys := make([]partKey, len(parts))
	seen := make(map[string]int)
	for i := range parts {
		p := &parts[i]
		if keys[i].text = "#" + p.id; p.id == "" {
			keys[i].text = p.same
			keys[i].nth = seen[p.same]
			seen[p.same]++
		}
	}
	return keys
}

// pair returns the index in from of each part in to, -1 for none, and which parts have
// moved. Parts with the same key belong together. Those of them that have kept their order
// divide the lists into sections, in which the other parts without ids are paired by their
// types, in order.
func pair(from, to []part) (fromOf []int, moved []bool) {
	fromOf, moved = make([]int, len(to)), make([]bool, len(to))
	index := make(map[partKey]int)
	for i, key := range keysOf(from) {
		index[key] = i
	}
	var both []int // indexes in to
	for j, key := range keysOf(to) {
		fromOf[j] = -1
		if i, ok := index[key]; ok {
			fromOf[j] = i
			both = append(both, j)
		}
	}
	anchors := rising(both, func(j int) int { return fromOf[j] })
	next := 0
	for _, j := range both {
		switch {
		case next < len(anchors) && anchors[next] == j:
			next++
		case to[j].id == "":
			fromOf[j] = -1 // it is no more alike than others of its type
		default:
			moved[j] = true
		}
	}
	i, j := 0, 0 // where the section begins
	for _, at := range append(anchors, len(to)) {
		end := len(from)
		if at < len(to) {
			end = fromOf[at]
		}
		pairSection(from, to, i, end, j, at, fromOf)
		i, j = end+1, at+1
	}
	return fromOf, moved
}

// pairSection pairs the parts without ids of two sections by their types.
func pairSection(from, to []part, i, iEnd, j, jEnd int, fromOf []int) {
	free := make(map[string][]int)
	for ; i < iEnd; i++ {
		if p := &from[i]; p.id == "" {
			free[p.kind] = append(free[p.kind], i)
		}
	}
	for ; j < jEnd; j++ {
		if p := &to[j]; p.id == "" && len(free[p.kind]) > 0 {
			fromOf[j] = free[p.kind][0]
			free[p.kind] = free[p.kind][1:]
		}
	}
}

// rising returns the longest part of a list whose values rise.
func rising(list []int, value func(int) int) []int {
	var ends []int // by length: the index of the lowest value with which a part of that length ends
	before := make([]int, len(list))
	for k, e := range list {
		n := sort.Search(len(ends), func(n int) bool { return value(list[ends[n]]) >= value(e) })
		if n > 0 {
			before[k] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, k)
		} else {
			ends[n] = k
		}
	}
	best := make([]int, len(ends))
	for n := len(ends) - 1; n >= 0; n-- {
		k := ends[len(ends)-1]
		if n < len(ends)-1 {
			k = before[best[n+1]]
		}
		best[n] = k
	}
	for n, k := range best {
		best[n] = list[k]
	}
	return best
}
