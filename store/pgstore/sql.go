package pgstore

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/*/*.sql
var sqlFiles embed.FS

// statements are the statements for one schema. The statement "claim/queued_with_limits" is
// the file sql/claim/queued_with_limits.sql. A file whose name ends in ".inc.sql" is a part of
// others. The files name the schema "courier"; it is replaced by the schema of the
// store after the statement has been composed and qualified, so the name of a
// schema is never parsed.
type statements struct {
	schema string
	mu     sync.RWMutex
	texts  map[variant]string
}

// A variant is a statement with values for the variables of its file.
type variant struct {
	name       string
	subscribed bool   // somebody has subscribed to events: the statement keeps them
	filter     string // conditions that begin with "and", of this program's text
}

// statementsBySchema holds *statements: all stores of a process share them, since
// composing and qualifying all takes 20 ms.
var statementsBySchema sync.Map

// statementsFor returns the statements for a schema.
func statementsFor(schema string) *statements {
	q, _ := statementsBySchema.LoadOrStore(schema, &statements{schema: schema, texts: make(map[variant]string)})
	return q.(*statements)
}

// text returns a statement as it is sent. It is composed when it is first used.
func (q *statements) text(v variant) string {
	q.mu.RLock()
	text, ok := q.texts[v]
	q.mu.RUnlock()
	if ok {
		return text
	}
	text = owned(v.compose(), q.schema)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.texts[v] = text
	return text
}

// sql returns a statement.
func (s *Store) sql(name string) string { return s.q.text(variant{name: name}) }

// sqlFiltered returns a statement with a filter, which may be empty.
func (s *Store) sqlFiltered(name, filter string) string {
	return s.q.text(variant{name: name, filter: filter})
}

// sqlSubscribed returns one of two forms of a statement. While somebody has
// subscribed to events, as far as this store has seen, it keeps the events that it
// causes. The other form writes nothing if somebody has subscribed meanwhile.
func (s *Store) sqlSubscribed(name string) string {
	return s.q.text(variant{name: name, subscribed: s.subscribed.Load()})
}

// compose returns the text of a variant for the schema "courier". A comment in it
// names the statement for those who look at what the server is doing.
func (v variant) compose() string {
	title := v.name
	if v.subscribed {
		title += "+events"
	}
	vars := map[string]string{
		"subscribed": strconv.FormatBool(v.subscribed), "unsubscribed": strconv.FormatBool(!v.subscribed), "filter": v.filter,
		"ended_steps": "false", "failures": "false",
	}
	words := compose(v.name+".sql", vars)
	return "/* courier: " + title + " */ " + strings.Join(words, " ")
}

// compose returns the words of a file below sql, without its comments. A file may
// have some of psql's commands, each on a line of its own:
//
//	\ir FILE              includes a file; its path is relative to this file
//	\set NAME VALUE       sets a variable
//	\if :NAME ... \endif  includes the lines between if the variable is true
//	\else
//
// A word :NAME stands for the value of the variable. Unknown names panic.
func compose(file string, vars map[string]string) (words []string) {
	text, err := sqlFiles.ReadFile("sql/" + file)
	if err != nil {
		panic(fmt.Sprintf("pgstore: %v", err)) // TestStatements composes all
	}
	return composeText(file, string(text), vars)
}

// composeText is compose for the text of a file.
func composeText(file, text string, vars map[string]string) (words []string) {
	value := func(word string) string {
		v, ok := vars[word[1:]]
		if !ok {
			panic(fmt.Sprintf("pgstore: sql/%s: no variable %s", file, word))
		}
		return v
	}
	var skipped []bool // of the conditions around a line
	for line := range strings.Lines(text) {
		code, _, _ := strings.Cut(line, "--")
		fields := strings.Fields(code)
		if len(fields) == 0 {
			continue
		}
		skip, last := slices.Contains(skipped, true), len(skipped)-1
		switch command := fields[0]; {
		case command == `\if`:
			skipped = append(skipped, value(fields[1]) != "true")
		case command == `\else`:
			skipped[last] = !skipped[last]
		case command == `\endif`:
			skipped = skipped[:last]
		case skip:
		case command == `\set`:
			vars[fields[1]] = fields[2]
		case command == `\ir`:
			words = append(words, compose(path.Join(path.Dir(file), fields[1]), vars)...)
		default:
			for _, w := range fields {
				if w[0] == ':' && !strings.HasPrefix(w, "::") {
					w = value(w)
				}
				words = append(words, w)
			}
		}
	}
	return words
}

// owned returns the text for the schema "courier" as it is sent for another one.
func owned(text, schema string) string { return inSchema(qualified(text), schema) }

// qualifier also finds comments and strings, which keep the word.
var qualifier = regexp.MustCompile(`--.*|'[^']*'|\bcourier\.`)

// inSchema returns text with its names in another schema than courier.
func inSchema(text, schema string) string {
	if schema == DefaultSchema {
		return text
	}
	name := pgx.Identifier{schema}.Sanitize() + "."
	return qualifier.ReplaceAllStringFunc(text, func(found string) string {
		if found == "courier." {
			return name
		}
		return found
	})
}
