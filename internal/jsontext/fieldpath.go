package jsontext

import (
	"strconv"
	"strings"
)

// FieldPath returns the names and indexes in the name of a field, as problems with
// definitions have it: such as config.items[2], or `members[2] "name": depends_on[0]`.
func FieldPath(field string) (path []string) {
	for field != "" {
		switch rest := field[1:]; {
		case field[0] == '.':
			field = rest
		case strings.HasPrefix(field, ` "`):
			_, field, _ = strings.Cut(field, ": ")
		case field[0] == '[':
			inner, after, _ := strings.Cut(rest, "]")
			if quoted, err := strconv.QuotedPrefix(rest); err == nil {
				inner, _ = strconv.Unquote(quoted)
				after = strings.TrimPrefix(rest[len(quoted):], "]")
			}
			path, field = append(path, inner), after
		default:
			i := strings.IndexAny(field, ".[ :")
			if i <= 0 {
				i = len(field)
			}
			path = append(path, field[:i])
			if field = field[i:]; strings.HasPrefix(field, ": ") {
				field = field[2:]
			}
		}
	}
	return path
}

// EscapePointer returns a name as a part of a JSON pointer (RFC 6901).
func EscapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}
