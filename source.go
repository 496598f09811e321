package courier

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/courierhq/courier/internal/jsontext"
	"github.com/courierhq/courier/internal/reference"
	"github.com/courierhq/courier/internal/strictjson"
)

// A Source is the JSON text of a definition. Problems that are found in it have their
// place in the file. It must not be changed after its first use.
type Source struct {
	File string // in which the text lies; may be empty
	// Text is the JSON text of one definition, which may begin anywhere in a file:
	// Line and Column, from 1, say where. 0 means 1.
	Text         []byte
	Line, Column int

	root  *place // of the text; nil before it is needed
	marks []mark
}

// A place is where a value begins, with those of the values in it.
type place struct {
	offset int
	names  map[string]*place // of an object
	items  []*place          // of a list
}

// A Definition is a type that a Source can be read into, such as a *[Job].
// Its UnmarshalJSON calls [ReadDefinition].
type Definition interface{ json.Unmarshaler }

// Read reads the text into v, as far as possible. It returns everything that is wrong
// with its form, in the order of the text and with the positions. Fields that could not
// be read are zero.
func (s *Source) Read(v Definition) []Problem {
	err := v.UnmarshalJSON(s.Text)
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*DefinitionError](err)
	if !ok {
		e = &DefinitionError{Problems: []Problem{{Step: -1, Message: err.Error(), Line: 1, Column: 1}}}
	}
	if e.partial != nil {
		reflect.ValueOf(v).Elem().Set(reflect.ValueOf(e.partial).Elem())
	}
	for i := range e.Problems { // whose places are those in the text alone
		p := &e.Problems[i]
		if p.File = s.File; p.Line == 1 {
			p.Column += max(s.Column, 1) - 1
		}
		p.Line += max(s.Line, 1) - 1
	}
	return e.Problems
}

// ReadDefinition sets *v, a struct, to the JSON object in text, which defines something of a
// kind, such as "job". The map that fields returns for a new value has, for each permitted
// name, the function that reads its value. Other names are errors, and so is a name that is
// given twice. The error is a *[DefinitionError] that lists everything that is wrong with the
// form of the text, with lines and columns counted from its beginning. After an error *v is
// unchanged.
func ReadDefinition[T any](kind string, text []byte, v *T, fields func(*T) map[string]func(*json.Decoder) error) error {
	s, n := Source{Text: text}, new(T)
	e := &DefinitionError{read: kind}
	if err := syntaxError(text); err != nil {
		e.Problems = []Problem{s.syntax(err)}
	} else {
		e.Problems, e.partial = s.problems(strictjson.ReadObject(strictjson.NewDecoder(text), fields(n))), n
	}
	if len(e.Problems) == 0 {
		*v = *n
		return nil
	}
	switch d := any(n).(type) {
	case *Job:
		e.Job = d.Name
	default:
		_ = strictjson.ReadObject(strictjson.NewDecoder(text), strictjson.Fields{"name": strictjson.Into(&e.name)})
	}
	return e
}

// Split returns the definitions in the text of a file, each as a Source: one JSON
// object, or a list of them. The problems say why the text can't be read.
func (s *Source) Split() (list []*Source, problems []Problem) {
	if err := syntaxError(s.Text); err != nil {
		return nil, []Problem{s.syntax(err)}
	}
	dec := strictjson.NewDecoder(s.Text)
	if tok, _ := dec.Token(); tok == json.Delim('[') {
		for i := 0; dec.More(); i++ {
			var item json.RawMessage
			if dec.Decode(&item) != nil {
				break
			}
			list = append(list, s.at(s.offset([]string{strconv.Itoa(i)}), item))
		}
	} else {
		list = []*Source{s.at(s.offset(nil), bytes.TrimSpace(s.Text))}
	}
	return list, nil
}

// at is the part of a text that begins at an offset.
func (s *Source) at(offset int, text []byte) *Source {
	var p Problem
	s.place(&p, offset)
	return &Source{File: p.File, Text: text, Line: p.Line, Column: p.Column}
}

// syntaxError says why a text can't be read at all.
func syntaxError(text []byte) error {
	if err := jsontext.CheckText(text); err != nil {
		return err
	}
	return json.Unmarshal(text, new(json.RawMessage))
}

func (s *Source) syntax(err error) Problem {
	p := Problem{Step: -1, Message: "not JSON: " + err.Error()}
	offset := 0
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = max(0, int(e.Offset)-1)
	} else if errors.Is(err, jsontext.ErrText) {
		p.Message = err.Error()
		for offset < len(s.Text) {
			r, n := utf8.DecodeRune(s.Text[offset:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			offset += n
		}
		offset %= max(1, len(s.Text)) // half a character is written as an escape: the text as a whole is to blame
	}
	s.place(&p, offset)
	return p
}

// Locate sets the file, line and column of each problem to those of the value with the
// problem, or of the object in which a value is missing.
func (s *Source) Locate(list []Problem) {
	for i := range list {
		p := &list[i]
		path := jsontext.FieldPath(p.Field)
		if p.Step >= 0 {
			path = append([]string{"steps", strconv.Itoa(p.Step)}, path...)
		}
		s.place(p, s.offset(path))
	}
}

// problems returns the problems of a read, in the order of the text.
func (s *Source) problems(err error) []Problem {
	found := strictjson.Errors(err)
	list := make([]Problem, len(found))
	for i, f := range found {
		path := f.Path
		list[i] = Problem{Step: -1, Message: f.Err.Error()}
		if f.Unnamed {
			path = path[:len(path)-1]
		}
		if len(path) > 1 && path[0] == "steps" {
			list[i].Step, _ = strconv.Atoi(path[1])
			path = path[2:]
		}
		list[i].Field = fieldName(path)
		s.place(&list[i], s.offset(f.Path))
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return list
}

func (s *Source) place(p *Problem, offset int) {
	n := offset / markEvery
	for i := len(s.marks); i <= n; i++ {
		m := mark{max(s.Line, 1), max(s.Column, 1)}
		if i > 0 {
			m = s.marks[i-1].after(s.Text[(i-1)*markEvery : i*markEvery])
		}
		s.marks = append(s.marks, m)
	}
	m := s.marks[n].after(s.Text[n*markEvery : offset])
	p.File, p.Line, p.Column = s.File, m.line, m.column
}

// A mark is the line and column at an offset. A Source keeps one for every so many bytes,
// because a text can have a line of any length and as many problems as values.
type mark struct{ line, column int }

const markEvery = 1 << 10

// after returns the mark behind a text.
func (m mark) after(text []byte) mark {
	for _, c := range text {
		switch {
		case c == '\n':
			m = mark{m.line + 1, 1}
		case utf8.RuneStart(c):
			m.column++
		}
	}
	return m
}

// offset is where the value at a path begins, or the last one on the way to it
// that there is.
func (s *Source) offset(path []string) int {
	if s.root == nil {
		s.root = s.index(strictjson.NewDecoder(s.Text))
	}
	at := s.root
	for _, name := range path {
		next := at.names[name]
		if i := reference.ParseIndex(name); i >= 0 && i < len(at.items) {
			next = at.items[i]
		}
		if next == nil {
			break
		}
		at = next
	}
	return at.offset
}

// index returns where the next value begins, and those in it. The text is valid.
func (s *Source) index(dec *json.Decoder) *place {
	p := &place{offset: int(dec.InputOffset())}
	for p.offset < len(s.Text) && strings.IndexByte(" \t\r\n,:", s.Text[p.offset]) >= 0 {
		p.offset++
	}
	tok, err := dec.Token()
	if err != nil {
		return p
	}
	switch tok {
	case json.Delim('{'):
		p.names = make(map[string]*place)
		for dec.More() {
			name, err := dec.Token()
			if err != nil {
				return p
			}
			p.names[name.(string)] = s.index(dec)
		}
	case json.Delim('['):
		for dec.More() {
			p.items = append(p.items, s.index(dec))
		}
	default:
		return p
	}
	_, _ = dec.Token()
	return p
}

// fieldName is the Field of a problem with a path.
func fieldName(path []string) string {
	var b strings.Builder
	for _, name := range path {
		switch {
		case reference.ParseIndex(name) >= 0:
			b.WriteString("[" + name + "]")
		case b.Len() > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}
