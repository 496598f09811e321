package sqltext

import (
	"fmt"
	"slices"
	"strings"
)

// Qualify returns SQL in which every operator, function, type and collation is named
// with its schema, so that search_path does not change what it means. Otherwise
// whoever may create objects in a schema of that path could have the server run a
// function of theirs, with the rights of the role that sends the statement.
//
// Some forms have no place for a schema: NULLIF, the simple form of CASE, and IN with
// a list compare by an operator "=" that PostgreSQL looks up by its name. Qualify
// rewrites them. An operator with a schema has the same precedence as all others of
// its kind, so parentheses keep the operands together.
//
// Qualify handles the SQL of pgstore and panics at anything else.
func Qualify(sql string) string {
	return rewrite(parse(sql))
}

// notFunctions are words that may stand before a parenthesis without being the name
// of a function that PostgreSQL looks up.
var notFunctions = words(`all and any array as by check coalesce conflict distinct else end except exists extract filter from greatest group in
	interval into is join key lateral least like limit materialized not nullif offset on or order over primary references returning row select set some
	then union unique using values when where with`)

// clauses are words that end an expression.
var clauses = words(`add alter and as asc begin by check collation column conflict constraint create cross default delete desc distinct do drop
	else end except exists for from full group having if index inner insert into is join lateral left limit not null nulls offset on or order
	outer primary recursive references returning right select set table then union unique update using values when where with`)

// unqualifiable are words of expressions that make PostgreSQL look up an operator or a
// type by its name. Qualify does not rewrite them.
var unqualifiable = words(`between cast ilike like natural overlaps similar`)

// grammarTypes are the types that PostgreSQL's grammar resolves to pg_catalog.
var grammarTypes = words(`bigint bit boolean char character dec decimal double float int integer interval national nchar numeric real smallint time timestamp varchar`)

// columnTypes are the other types of columns. They stand behind a name, which may be
// the word "by".
var columnTypes = words(`bool bytea json jsonb text timestamptz uuid`)

func words(list string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(list) {
		m[w] = true
	}
	return m
}

// rewrite returns the qualified text of tokens.
func rewrite(list []token) string {
	var b strings.Builder
	assigns := false // in the SET of an UPDATE
	for i := 0; i < len(list); {
		if t := list[i]; endsExpression(list, i) {
			switch t.text {
			case "set":
				assigns = true
			case "from", "where", "returning", ";":
				assigns = false
			case "distinct", "using":
				refuseClause(list, i)
			}
			b.WriteString(t.String())
			i++
			continue
		}
		next := i + 1
		for next < len(list) && !endsExpression(list, next) {
			next++
		}
		part, before := list[i:next], ""
		if i > 0 {
			before = list[i-1].text
		}
		at := slices.IndexFunc(part, func(t token) bool { return t.is(operatorToken, "=") })
		if assigns && at > 0 && (before == "set" || before == ",") {
			b.WriteString(textOf(part[:at+1])) // what is assigned to is a name
			part = part[at+1:]
		}
		b.WriteString((&expression{list: part, before: before}).all())
		i = next
	}
	return b.String()
}

// refuseClause panics at clauses that compare by an operator "=" without a name.
func refuseClause(list []token, i int) {
	switch t := list[i]; {
	case t.text == "distinct" && i > 0 && (list[i-1].text == "is" || list[i-1].text == "not"),
		t.text == "using" && i+1 < len(list) && list[i+1].kind == groupToken:
		panic(fmt.Sprintf("sqltext: %q can't be qualified", textOf(list[max(0, i-3):min(len(list), i+3)])))
	}
}

// endsExpression reports whether the token at i stands outside of any expression.
func endsExpression(list []token, i int) bool {
	t := list[i]
	switch t.kind {
	case separatorToken:
		return true
	case wordToken:
		if i > 0 && list[i-1].is(dotToken, ".") || i+1 < len(list) && list[i+1].is(dotToken, ".") {
			return false
		}
		call := i+1 < len(list) && list[i+1].kind == groupToken && (t.text == "left" || t.text == "right")
		return clauses[t.text] && !call
	}
	return false
}

// An expression is a sequence of operands and operators, or any other text between two
// clauses.
type expression struct {
	list   []token
	before string // the token before it
	at     int
}

// all returns the text of the whole expression.
func (e *expression) all() string {
	text, _ := e.parse(0)
	if e.at < len(e.list) {
		panic(fmt.Sprintf("sqltext: %q in %q can't be qualified", e.list[e.at].text, textOf(e.list)))
	}
	return text
}

// precedence returns the precedence of an operator that is written without a schema.
func precedence(op string) int {
	switch op {
	case "=", "<", ">", "<=", ">=", "<>", "!=":
		return 0
	case "in", "not in":
		return 1
	case "+", "-":
		return 3
	case "*", "/", "%":
		return 4
	case "^":
		return 5
	}
	return 2
}

// parse returns the text of operands and operators of at least a precedence, and
// whether there was an operator.
func (e *expression) parse(least int) (text string, compound bool) {
	text, compound = e.operand()
	for e.at < len(e.list) {
		op := e.list[e.at]
		p := precedence(op.text)
		if p < least {
			break
		}
		e.at++
		compound = true
		if op.space == "" {
			op.space = " "
		}
		if op.text == "in" || op.text == "not in" {
			text += op.space + e.among(op.text)
			continue
		}
		right, both := e.parse(p + 1)
		text += op.space + inCatalog(op.text) + parenthesized(right, both)
	}
	return text, compound
}

// inCatalog is an operator with its schema.
func inCatalog(op string) string {
	if strings.HasPrefix(op, "operator(") {
		return op
	}
	return "operator(pg_catalog." + op + ")"
}

// parenthesized puts text into parentheses if it is compound. Leading space stays
// before them.
func parenthesized(text string, compound bool) string {
	if !compound {
		return text
	}
	bare := strings.TrimLeft(text, " \t\n")
	return text[:len(text)-len(bare)] + "(" + bare + ")"
}

// among returns the comparison with the list or query that follows IN or NOT IN.
func (e *expression) among(op string) string {
	group := e.list[e.at]
	e.at++
	query := len(group.list) > 0 && (group.list[0].text == "select" || group.list[0].text == "with")
	list := rewrite(group.list)
	switch {
	case group.open != "(" || query && op == "not in":
		panic(fmt.Sprintf("sqltext: %s %s can't be qualified", op, group))
	case query:
		return inCatalog("=") + " any (" + list + group.closing
	case op == "in":
		return inCatalog("=") + " any (array[" + list + "])"
	}
	return inCatalog("<>") + " all (array[" + list + "])"
}

// operand returns the text of an operand, with the operators before it.
func (e *expression) operand() (text string, compound bool) {
	if e.at < len(e.list) && e.list[e.at].kind == operatorToken && e.list[e.at].text != "*" {
		op := e.list[e.at]
		e.at++
		if precedence(op.text) < 2 {
			panic(fmt.Sprintf("sqltext: %q begins an expression in %q", op.text, textOf(e.list)))
		}
		bare := e.at+1 >= len(e.list) || !e.list[e.at+1].is(castToken, "::") && e.list[e.at+1].kind != groupToken
		if op.text == "-" && e.at < len(e.list) && e.list[e.at].kind == numberToken && bare {
			text, _ = e.operand()
			return op.space + "-" + text, false // a number below 0
		}
		text, _ = e.operand()
		return op.space + inCatalog(op.text) + " " + strings.TrimLeft(text, " "), true
	}
	from := e.at
	for e.at < len(e.list) {
		t := e.list[e.at]
		star := t.is(operatorToken, "*") && (e.at == from || e.list[e.at-1].is(dotToken, "."))
		if t.kind == operatorToken && !star {
			break
		}
		e.at++
	}
	before := e.before
	if from > 0 {
		before = e.list[from-1].text
	}
	return rewriteOperand(e.list[from:e.at], before), false
}

// rewriteOperand returns the qualified text of an operand. Before is the text of the
// token before it.
func rewriteOperand(list []token, before string) string {
	var b strings.Builder
	for i, t := range list {
		var last, next token
		if last.text = before; i > 0 {
			last = list[i-1]
		}
		if i+1 < len(list) {
			next = list[i+1]
		}
		switch {
		case t.kind == groupToken && t.open == "case":
			b.WriteString(t.space + rewriteCase(t))
		case t.kind == groupToken && last.text == "with":
			b.WriteString(t.String()) // settings of a table
		case t.kind == groupToken && last.is(wordToken, "nullif"):
			b.WriteString(rewriteNullIf(t))
		case t.kind == groupToken:
			b.WriteString(t.space + t.open + rewrite(t.list) + t.closing)
		case t.kind == quotedToken && last.text == "collate":
			b.WriteString(t.space + "pg_catalog." + t.text)
		case unqualifiable[t.text] && (i > 0 || t.text != "like") && t.kind == wordToken && !last.is(dotToken, ".") && !next.is(dotToken, "."),
			next.kind == otherToken && strings.HasPrefix(next.text, "'") && t.named() && !grammarTypes[t.text]:
			panic(fmt.Sprintf("sqltext: %q in %q can't be qualified", t.text, textOf(list)))
		case t.kind != wordToken || last.is(dotToken, ".") || next.is(dotToken, "."):
			b.WriteString(t.String())
		case t.text == "nullif" && next.open == "(":
			b.WriteString(t.space)
		case last.is(castToken, "::") && !grammarTypes[t.text], (i > 0 && last.named() || last.text == "by") && columnTypes[t.text], calls(t, last, next):
			b.WriteString(t.space + "pg_catalog." + t.text)
		default:
			b.WriteString(t.String())
		}
	}
	return b.String()
}

// calls reports whether a word calls a function that PostgreSQL looks up by the path.
// Last and next are the tokens beside it. A list of column names follows an alias, and
// calls nothing. Unnest with several arguments is a form of the grammar, which means
// the same whatever the path.
func calls(t, last, next token) bool {
	if next.kind != groupToken || next.open != "(" || notFunctions[t.text] || grammarTypes[t.text] {
		return false
	}
	if last.text == "as" || last.kind == groupToken || last.named() && !clauses[last.text] {
		return false
	}
	return t.text != "unnest" || !slices.ContainsFunc(next.list, func(t token) bool { return t.is(separatorToken, ",") })
}

// rewriteNullIf returns NULLIF with the parentheses of its arguments as a CASE.
func rewriteNullIf(group token) string {
	at := slices.IndexFunc(group.list, func(t token) bool { return t.is(separatorToken, ",") })
	last := group.list[len(group.list)-1]
	constant := last.kind == otherToken || last.kind == numberToken || last.is(wordToken, "false") || last.is(wordToken, "true")
	if at < 0 || !constant || len(group.list) != at+2 && (len(group.list) != at+3 || group.list[at+1].text != "-") {
		panic(fmt.Sprintf("sqltext: nullif%s can't be qualified: the second argument must be a constant", group))
	}
	value, compound := (&expression{list: group.list[:at]}).parse(0)
	value = parenthesized(value, compound)
	return "case when " + value + " " + inCatalog("<>") + rewrite(group.list[at+1:]) + " then " + value + " end"
}

// rewriteCase returns a CASE, with the value that it compares, if any, in each
// condition.
func rewriteCase(group token) string {
	at := slices.IndexFunc(group.list, func(t token) bool { return t.is(wordToken, "when") })
	if at <= 0 {
		return group.open + rewrite(group.list) + group.closing
	}
	value, compound := (&expression{list: group.list[:at]}).parse(0)
	value = parenthesized(value, compound)
	b := strings.Builder{}
	b.WriteString(group.open)
	for list := group.list[at:]; len(list) > 0; {
		end := 1
		for end < len(list) && !list[end].is(wordToken, "when") && !list[end].is(wordToken, "then") {
			end++
		}
		if list[0].text == "when" {
			right, compound := (&expression{list: list[1:end]}).parse(0)
			b.WriteString(list[0].String() + value + " " + inCatalog("=") + parenthesized(right, compound))
		} else {
			b.WriteString(rewrite(list[:end]))
		}
		list = list[end:]
	}
	return b.String() + group.closing
}
