package sqltext

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tokenKind is the kind of a token of SQL.
type tokenKind int

const (
	otherToken     tokenKind = iota // a string or a parameter
	wordToken                       // a keyword or a name
	quotedToken                     // a name in quotes
	numberToken                     // without a sign
	operatorToken                   // also the words in and not in, and operator(...)
	separatorToken                  // "," ";" ":"
	dotToken                        // "."
	castToken                       // "::"
	groupToken                      // everything in parentheses or brackets, or between CASE and END
)

// A token is a token of SQL, with the space and the comments before it.
type token struct {
	kind    tokenKind
	space   string
	text    string // empty for a group
	open    string // of a group: "(", "[" or "case"
	list    []token
	closing string // with the space before it
}

func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// named reports whether the token may be a name.
func (t token) named() bool { return t.kind == wordToken || t.kind == quotedToken }

// String returns the text that the token was read from.
func (t token) String() string {
	if t.kind == groupToken {
		return t.space + t.open + textOf(t.list) + t.closing
	}
	return t.space + t.text
}

// textOf returns the text that tokens were read from.
func textOf(list []token) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.String())
	}
	return b.String()
}

// parse returns the tokens of a text.
func parse(text string) []token {
	p := &parser{text: text}
	list, end := p.list("")
	if space := end.space; space != "" {
		list = append(list, token{space: space})
	}
	return list
}

// A parser reads tokens.
type parser struct {
	text string
	at   int
}

// next returns the next token. A token that opens or closes a group has its text in
// open too. The end of the text is a token without text.
func (p *parser) next() (t token) {
	rest := p.text[p.at:]
	space := spaceLen(rest)
	n, kind := tokenLen(rest[space:])
	t.space, t.text, t.kind = rest[:space], rest[space:space+n], kind
	p.at += space + n
	switch {
	case kind == wordToken && (t.text == "case" || t.text == "end"), kind == groupToken:
		t.open = t.text
	case kind == wordToken && (t.text == "in" || strings.HasPrefix(t.text, "operator(")):
		t.kind = operatorToken
	}
	if kind == groupToken {
		t.kind = otherToken
	}
	return t
}

// spaceLen returns the length of the space and the comments that a text begins with.
func spaceLen(s string) int {
	n := 0
	for n < len(s) {
		length := 0
		switch rest := s[n:]; {
		case isSpace(s[n]):
			length = 1
		case strings.HasPrefix(rest, "--"):
			length = endOf(rest, 2, "\n", 0)
		case strings.HasPrefix(rest, "/*"):
			length = endOf(rest, 2, "*/", 2)
		default:
			return n
		}
		n += length
	}
	return n
}

// tokenLen returns the length and the kind of the token that a text begins with. A
// parenthesis or a bracket has the kind of a group. Length 0 is the end of the text.
func tokenLen(s string) (int, tokenKind) {
	if s == "" {
		return 0, otherToken
	}
	switch c := s[0]; {
	case c == '\'':
		return quotedLen(s), otherToken
	case c == '"':
		return quotedLen(s), quotedToken
	case strings.HasPrefix(s, "$$"):
		return endOf(s, 2, "$$", 2), otherToken
	case c == '$':
		return 1 + lenOf(s[1:], isDigit), otherToken
	case isDigit(c):
		n := lenOf(s, isDigit)
		if n+1 < len(s) && s[n] == '.' && isDigit(s[n+1]) {
			n += 1 + lenOf(s[n+1:], isDigit)
		}
		return n, numberToken
	case isWord(c):
		if strings.HasPrefix(s, "operator(") {
			return endOf(s, 0, ")", 1), wordToken
		}
		return lenOf(s, isWord), wordToken
	case isOperator(c):
		return operatorLen(s), operatorToken
	case strings.HasPrefix(s, "::"):
		return 2, castToken
	case c == ',' || c == ';' || c == ':':
		return 1, separatorToken
	case c == '.':
		return 1, dotToken
	case strings.IndexByte("()[]", c) >= 0:
		return 1, groupToken
	}
	panic(fmt.Sprintf("sqltext: no token of SQL at %.40q", s))
}

// endOf returns the length of s up to the next occurrence of end at or after from,
// and the first with bytes of that. It returns the length of s if there is none.
func endOf(s string, from int, end string, with int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + with
	}
	return len(s)
}

// quotedLen returns the length of the string or quoted name that s begins with. Two
// quotes stand for one.
func quotedLen(s string) int {
	for i := 1; i < len(s); i++ {
		if s[i] != s[0] {
			continue
		}
		if i+1 == len(s) || s[i+1] != s[0] {
			return i + 1
		}
		i++
	}
	panic(fmt.Sprintf("sqltext: SQL ends within quotes: %.40q", s))
}

// operatorLen returns the length of the operator that s begins with. PostgreSQL lets
// an operator end in + or - only if it contains one of certain other characters.
func operatorLen(s string) int {
	n := lenOf(s, isOperator)
	for n > 1 && (s[n-1] == '+' || s[n-1] == '-') && !strings.ContainsAny(s[:n], "~!@#%^&|?") {
		n--
	}
	return n
}

// lenOf returns the number of bytes at the beginning of s for which is holds.
func lenOf(s string, is func(byte) bool) int {
	for i := range len(s) {
		if !is(s[i]) {
			return i
		}
	}
	return len(s)
}

func isSpace(c byte) bool    { return c == ' ' || c == '\t' || c == '\n' || c == '\f' || c == '\r' }
func isDigit(c byte) bool    { return '0' <= c && c <= '9' }
func isWord(c byte) bool     { return isDigit(c) || c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' }
func isOperator(c byte) bool { return strings.IndexByte("-+*/<>=~!@#%^&|?", c) >= 0 }

// list returns the tokens up to the one that closes the group, and that one. An empty
// closing stands for the end of the text.
func (p *parser) list(closing string) (list []token, end token) {
	for {
		t := p.next()
		if t.text == "" || t.open != "" && t.text == closing {
			if t.text != closing {
				panic(fmt.Sprintf("sqltext: SQL ends without %q", closing))
			}
			return list, t
		}
		afterDot := len(list) > 0 && list[len(list)-1].kind == dotToken
		switch {
		case t.open == "" || t.open == "end" || t.open == "case" && afterDot:
			t.open = ""
		case t.open == ")" || t.open == "]":
			panic(fmt.Sprintf("sqltext: SQL has %q too many", t.open))
		default:
			close := map[string]string{"(": ")", "[": "]", "case": "end"}[t.open]
			t.kind, t.text = groupToken, ""
			var last token
			t.list, last = p.list(close)
			t.closing = last.String()
		}
		if n := len(list); t.is(operatorToken, "in") && n > 0 && list[n-1].is(wordToken, "not") {
			list, t.space, t.text = list[:n-1], list[n-1].space, "not in"
		}
		list = append(list, t)
	}
}

// Words returns the words and operators of a text, without repetitions and in no
// order. A test gives all of them another meaning on the search_path of a session.
func Words(text string) []string {
	all := make(map[string]bool)
	var add func(list []token)
	add = func(list []token) {
		for _, t := range list {
			switch t.kind {
			case wordToken:
				all[t.text] = true
			case operatorToken:
				all[strings.TrimSuffix(strings.TrimPrefix(t.text, "operator(pg_catalog."), ")")] = true
			}
			add(t.list)
		}
	}
	add(parse(text))
	return slices.Collect(maps.Keys(all))
}
