// Package sqltext prepares the text of the SQL statements that pgstore sends. It
// composes a statement from files ([Compose]) and fits it to a schema ([ForSchema]):
// every name gets its schema, so that neither the statement nor a migration depends
// on the search_path of the session.
//
// The texts are those of this module, never input: what the package cannot handle
// panics, and tests of pgstore compose and qualify every text that it sends.
package sqltext

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Schema is the schema that the texts name. [ForSchema] replaces it.
const Schema = "courier"

// Compose returns the text of a file, without comments and with single spaces. A file
// may have these commands of psql, each on a line of its own:
//
//	\ir FILE              includes a file; its path is relative to this file
//	\set NAME VALUE       sets a variable
//	\if :NAME ... \endif  includes the lines between if the variable is "true"
//	\else
//
// A word :NAME stands for the value of the variable. A file or a variable that does
// not exist panics. Compose may change vars.
func Compose(files fs.FS, file string, vars map[string]string) string {
	return strings.Join(compose(files, file, vars), " ")
}

// compose returns the words of a file.
func compose(files fs.FS, file string, vars map[string]string) []string {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		panic(fmt.Sprintf("sqltext: %v", err))
	}
	return composeText(files, file, string(text), vars)
}

// composeText returns the words of the text of a file.
func composeText(files fs.FS, file, text string, vars map[string]string) (words []string) {
	value := func(word string) string {
		v, ok := vars[word[1:]]
		if !ok {
			panic(fmt.Sprintf("sqltext: %s: no variable %s", file, word))
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
			words = append(words, compose(files, path.Join(path.Dir(file), fields[1]), vars)...)
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

// ForSchema qualifies a text with [Qualify] and puts its names that begin with
// "courier." into another schema. Strings and comments stay as they are.
func ForSchema(text, schema string) string {
	text = Qualify(text)
	if schema == Schema {
		return text
	}
	// The name is put in last, so it is never parsed, whatever it contains.
	name := pgx.Identifier{schema}.Sanitize() + "."
	return qualifier.ReplaceAllStringFunc(text, func(found string) string {
		if found == Schema+"." {
			return name
		}
		return found
	})
}

// qualifier finds the names of the schema; it also finds comments and strings, which
// keep the word.
var qualifier = regexp.MustCompile(`--.*|'[^']*'|\b` + Schema + `\.`)
