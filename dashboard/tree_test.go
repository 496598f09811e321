package dashboard_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

// A node is an element of a page.
type node struct {
	tag   string
	attrs map[string]string
	kids  []*node // texts among them, whose tag is empty
	words string  // of a text
	up    *node
}

// parsePage returns the tree of a page, whose elements must all be closed.
func parsePage(t testing.TB, page string) *node {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	root := &node{tag: "#page"}
	at := root
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the page is not well formed: %v\n%s", err, page)
		}
		switch e := token.(type) {
		case xml.StartElement:
			n := &node{tag: e.Name.Local, attrs: make(map[string]string), up: at}
			for _, a := range e.Attr {
				if _, twice := n.attrs[a.Name.Local]; twice {
					t.Errorf("<%s> has the attribute %s twice", n.tag, a.Name.Local)
				}
				n.attrs[a.Name.Local] = a.Value
			}
			at.kids = append(at.kids, n)
			at = n
		case xml.EndElement:
			if at.tag != e.Name.Local {
				t.Fatalf("</%s> closes <%s>", e.Name.Local, at.tag)
			}
			at = at.up
		case xml.CharData:
			at.kids = append(at.kids, &node{words: string(e), up: at})
		}
	}
	if at != root {
		t.Errorf("<%s> is not closed", at.tag)
	}
	return root
}

// each calls f with the node and all below it.
func (n *node) each(f func(n *node)) {
	f(n)
	for _, k := range n.kids {
		k.each(f)
	}
}

// text is the text of the node and all below it, with single spaces.
func (n *node) text() string {
	var b strings.Builder
	n.each(func(k *node) { b.WriteString(k.words + " ") })
	return strings.Join(strings.Fields(b.String()), " ")
}

// all returns the nodes that match "tag", "#id", ".class", "[attr]", or "tag[attr=value]".
func (n *node) all(selector string) (list []*node) {
	tag, cond, _ := strings.Cut(strings.TrimSuffix(selector, "]"), "[")
	name, value, valued := strings.Cut(cond, "=")
	n.each(func(k *node) {
		ok := k.tag != "" && tag == "" || k.tag != "" && tag != "" && (tag == k.tag || tag[0] == '#' && k.attrs["id"] == tag[1:] || tag[0] == '.' && slices.Contains(strings.Fields(k.attrs["class"]), tag[1:]))
		if v, has := k.attrs[name]; ok && (cond == "" || has && (!valued || v == value)) {
			list = append(list, k)
		}
	})
	return list
}

// one returns the only node that matches.
func (n *node) one(t testing.TB, selector string) *node {
	t.Helper()
	list := n.all(selector)
	if len(list) != 1 {
		t.Fatalf("the page has %d of %s, and not one", len(list), selector)
	}
	return list[0]
}

// faults returns what no page may have: what the policy of pages blocks, what leads outside,
// and what makes it unusable without eyes or without a mouse.
func (n *node) faults() (list []string) {
	fault := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, tag := range []string{"h1", "main", "head", "html"} {
		if len(n.all(tag)) != 1 {
			fault("%d of <%s>", len(n.all(tag)), tag)
		}
	}
	ids, labels, level := map[string]int{}, map[string]bool{}, 1
	n.each(func(k *node) {
		if id := k.attrs["id"]; id != "" {
			ids[id]++
		}
		if k.tag == "label" {
			labels[k.attrs["for"]] = true
		}
	})
	for id, times := range ids {
		if times > 1 {
			fault("the id %q %d times", id, times)
		}
	}
	n.each(func(k *node) {
		for name, value := range k.attrs {
			switch {
			case name == "style" || strings.HasPrefix(name, "on"):
				fault("<%s %s>", k.tag, name)
			case name == "href" || name == "src" || name == "action":
				if (strings.HasPrefix(value, "/") || strings.Contains(strings.SplitN(value, "/", 2)[0], ":")) && !strings.HasPrefix(k.attrs["rel"], "external") {
					fault("<%s> leads to %q, which is not relative", k.tag, value)
				}
			case name == "aria-describedby" || name == "aria-labelledby" || name == "for":
				for _, id := range strings.Fields(value) {
					if ids[id] == 0 {
						fault("<%s %s=%q>: there is no such id", k.tag, name, id)
					}
				}
			}
		}
		if block := []string{"details", "div", "ul", "ol", "dl", "p", "pre", "table", "form", "section"}; slices.Contains(block, k.tag) {
			for up := k.up; up != nil; up = up.up {
				if up.tag == "p" {
					fault("<%s> in <p>, which a browser closes before it", k.tag)
				}
			}
		}
		switch k.tag {
		case "script":
			if k.text() != "" || k.attrs["src"] == "" {
				fault("a script in the page")
			}
		case "style", "iframe", "object", "base":
			fault("<%s>", k.tag)
		case "table":
			if len(k.all("caption")) != 1 {
				fault("a table without caption")
			}
		case "th":
			if k.attrs["scope"] == "" {
				fault("<th> %q without scope", k.text())
			}
		case "input", "select", "textarea":
			if k.attrs["type"] != "hidden" && k.attrs["aria-label"] == "" && !labels[k.attrs["id"]] && k.up.tag != "label" {
				fault("<%s name=%q> without label", k.tag, k.attrs["name"])
			}
		case "a", "button":
			if k.text() == "" && k.attrs["aria-label"] == "" {
				fault("<%s> without text", k.tag)
			}
		case "nav":
			if k.attrs["aria-label"] == "" {
				fault("<nav> without name")
			}
		case "h1", "h2", "h3", "h4":
			now := int(k.tag[1] - '0')
			if now > level+1 {
				fault("<%s> follows <h%d>", k.tag, level)
			}
			level = now
		}
	})
	return list
}
