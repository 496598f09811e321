package pgstore

import (
	"fmt"
	"regexp"
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

// named reports whether the token may be a name.
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

// sqlLexer finds the next token with the space before it: space and comments, and
// one of a string, a name in quotes, a parameter, a word, a number, an operator,
// and punctuation.
var sqlLexer = regexp.MustCompile(`^((?:\s+|--[^\n]*|/\*(?:[^*]|\*+[^*/])*\*+/)*)` +
	`(?:('(?:[^']|'')*'|\$\$(?s:.*?)\$\$|\$\d+)|("(?:[^"]|"")*")|(operator\(\w+\.[^\w)]+\)|[A-Za-z_]\w*)|(\d+(?:\.\d+)?)|(::)|([-+*/<>=~!@#%^&|?]+)|([,;:])|(\.)|([(\[)\]])|$)`)

// parseSQL returns the tokens of a text.
func parseSQL(text string) []sqlToken {
	p := &sqlParser{rest: text}
	list, end := p.list("")
	if space := end.space; space != "" {
		list = append(list, sqlToken{space: space})
	}
	return list
}

// An sqlParser reads tokens.
type sqlParser struct{ rest string }

// next returns the next token; an opening or closing one stands in open, and the
// end of the text is a token without text.
func (p *sqlParser) next() (t sqlToken) {
	m := sqlLexer.FindStringSubmatch(p.rest)
	if m == nil {
		panic(fmt.Sprintf("pgstore: no token of SQL at %.40q", p.rest))
	}
	p.rest = p.rest[len(m[0]):]
	t.space, t.text = m[1], m[0][len(m[1]):]
	switch {
	case m[3] != "":
		t.kind = quotedToken
	case m[4] != "":
		t.kind = wordToken
		switch {
		case t.text == "case" || t.text == "end":
			t.open = t.text
		case t.text == "in" || strings.HasPrefix(t.text, "operator("):
			t.kind = operatorToken
		}
	case m[5] != "":
		t.kind = numberToken
	case m[6] != "":
		t.kind = castToken
	case m[7] != "":
		t.kind = operatorToken
		for n := len(t.text); n > 1 && strings.ContainsAny(t.text[n-1:n], "+-") && !strings.ContainsAny(t.text, "~!@#%^&|?"); n-- {
			t.text, p.rest = t.text[:n-1], t.text[n-1:]+p.rest
		}
	case m[8] != "":
		t.kind = separatorToken
	case m[9] != "":
		t.kind = dotToken
	case m[10] != "":
		t.open = t.text
	}
	return t
}

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
