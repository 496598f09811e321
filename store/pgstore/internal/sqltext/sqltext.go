// Package sqltext prepares the text of the SQL statements that pgstore sends. It
// reads a statement from its file ([Read]) and names the schema of its tables
// ([ForSchema]).
//
// The texts are those of this module, never input: what the package cannot handle
// panics, and tests of pgstore read every text that it sends.
package sqltext

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Schema is the schema that the texts name. [ForSchema] replaces it.
const Schema = "courier"

// Read returns the text of a file without comments. Where a line is "\ir PART", the file PART
// of the same folder, or of the relative path, stands in its place, as in psql. A file that
// does not exist panics.
func Read(files fs.FS, file string) string {
	text, err := fs.ReadFile(files, file)
	if err != nil {
		panic(fmt.Sprintf("sqltext: %v", err))
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, "--")
		part, included := strings.CutPrefix(strings.TrimSpace(code), `\ir `)
		switch {
		case included:
			b.WriteString(Read(files, path.Join(path.Dir(file), part)))
		case strings.TrimSpace(code) != "":
			b.WriteString(strings.TrimRight(code, " \t\n") + "\n")
		}
	}
	return b.String()
}

// ForSchema puts the names of a text that begin with "courier." into another schema.
// Strings and comments stay as they are.
func ForSchema(text, schema string) string {
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
