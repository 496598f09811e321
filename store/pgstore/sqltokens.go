package pgstore

import (
	"fmt"
	"strings"
)

// sqlKind is the kind of a token of SQL.
type sqlKind int

const (
	otherToken     sqlKind = iota // a string or a parameter
	wordToken                     // a keyword or a name
	quotedToken                   // a name in quotes
	numberToken                   // without a sign
	operatorToken                 // also the words that are operators
	separatorToken                // "," ";" ":"
	dotToken                      // "."
	castToken                     // "::"
	groupToken                    // what stands in parentheses, in brackets, or between CASE and END
)

// An sqlToken is a token of SQL, with the space and the comments before it.
type sqlToken struct {
	kind    sqlKind
	space   string
	text    string // empty for a group
	open    string // of a group: "(", "[" or "case"
	list    []sqlToken
	closing string // with the space before it
}

func (t sqlToken) is(kind sqlKind, text string) bool { return t.kind == kind && t.text == text }

// withJobNames reports whether the token may be a name.
func (t sqlToken) named() bool { return t.kind == wordToken || t.kind == quotedToken }

// String returns the text of the token, as it was.
func (t sqlToken) String() string {
	if t.kind == groupToken {
		return t.space + t.open + tokens(t.list) + t.closing
	}
	return t.space + t.text
}

// tokens returns the text of tokens, as it was.
func tokens(list []sqlToken) string {
	var b strings.Builder
	for _, t := range list {
		b.WriteString(t.String())
	}
	return b.String()
}

// parseSQL returns the tokens of a text.
func parseSQL(text string) []sqlToken {
	p := &sqlParser{text: text}
	list, end := p.list("")
	if space := end.space; space != "" {
		list = append(list, sqlToken{space: space})
	}
	return list
}

// An sqlParser reads tokens.
type sqlParser struct {
	text string
	at   int
}

// next returns the next token; an opening or closing one stands in open, and the
// end of the text is a token without text.
func (p *sqlParser) next() (t sqlToken) {
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

// spaceLen is the length of the space and the comments that a text begins with.
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

// tokenLen is the length and the kind of the token that a text begins with, where
// a parenthesis or a bracket counts as a group; 0 is the end of the text.
func tokenLen(s string) (int, sqlKind) {
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
	panic(fmt.Sprintf("pgstore: no token of SQL at %.40q", s))
}

// endOf is the index in s behind the next end from an index on, with so many of
// its bytes; without an end it is that of the whole text.
func endOf(s string, from int, end string, with int) int {
	if i := strings.Index(s[from:], end); i >= 0 {
		return from + i + with
	}
	return len(s)
}

// quotedLen is the length of a string or of a name in quotes, in which two quotes
// stand for one.
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
	panic(fmt.Sprintf("pgstore: SQL ends within quotes: %.40q", s))
}

// operatorLen is the length of an operator. One can end in + or - only if it has
// one of certain other characters.
func operatorLen(s string) int {
	n := lenOf(s, isOperator)
	for n > 1 && (s[n-1] == '+' || s[n-1] == '-') && !strings.ContainsAny(s[:n], "~!@#%^&|?") {
		n--
	}
	return n
}

// lenOf is how many bytes at the beginning of s are of a kind.
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

// list returns the tokens up to one that closes a group, or up to the end.
func (p *sqlParser) list(closing string) (list []sqlToken, end sqlToken) {
	for {
		t := p.next()
		if t.text == "" || t.open != "" && t.text == closing {
			if t.text != closing {
				panic(fmt.Sprintf("pgstore: SQL ends without %q", closing))
			}
			return list, t
		}
		afterDot := len(list) > 0 && list[len(list)-1].kind == dotToken
		switch {
		case t.open == "" || t.open == "end" || t.open == "case" && afterDot:
			t.open = ""
		case t.open == ")" || t.open == "]":
			panic(fmt.Sprintf("pgstore: SQL has %q too many", t.open))
		default:
			close := map[string]string{"(": ")", "[": "]", "case": "end"}[t.open]
			t.kind, t.text = groupToken, ""
			var last sqlToken
			t.list, last = p.list(close)
			t.closing = last.String()
		}
		if n := len(list); t.is(operatorToken, "in") && n > 0 && list[n-1].is(wordToken, "not") {
			list, t.space, t.text = list[:n-1], list[n-1].space, "not in"
		}
		list = append(list, t)
	}
}
