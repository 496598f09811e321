package safehttp

// MaxDepth is how deeply JSON from a server may be nested to become a value:
// what reads values, such as a database, calls itself at every level.
const MaxDepth = 64

// Depth is how deeply valid JSON is nested.
func Depth(text []byte) int {
	most, now, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}
