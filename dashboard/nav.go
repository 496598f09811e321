package dashboard

import (
	"strconv"
	"strings"
)

// navGroups are the groups of the links at the top of all pages, and what is in them: what is
// watched and looked for every day, with whom files are exchanged, what is executed and when, and
// the service itself. The pages of the group that one is in stand in a second line. "g" and the
// number of a group open its first page.
var navGroups = []string{"Work", "Partners", "Rules", "Administration"}

// A navGroup is a group with those of its pages that the visitor may know.
type navGroup struct {
	Label, Href, Key string
	Current          bool // the page is in it
	Items            []navItem
}

// nav returns the links at the top of the page. A group of which the visitor may know nothing is
// not among them.
func (c *call) nav() (list []navGroup) {
	in := c.h.groupOf(c.page)
	for i, label := range navGroups {
		g := navGroup{Label: label, Key: strconv.Itoa(i + 1), Current: label == in}
		for j := range c.h.table {
			p := &c.h.table[j]
			if p.nav == "" || p.group != label || p.on == onAll && !c.maySee(p) {
				continue
			}
			g.Items = append(g.Items, navItem{Label: p.nav, Href: c.root + p.path, Key: p.key, Current: p.has(c.page)})
		}
		if len(g.Items) > 0 {
			g.Href = g.Items[0].Href
			list = append(list, g)
		}
	}
	return list
}

// groupOf returns the group of a page, or of the one that it belongs to; empty for none.
func (h *Handler) groupOf(q *page) string {
	if q == nil {
		return ""
	} else if q.group != "" {
		return q.group
	}
	for i := range h.table {
		if p := &h.table[i]; p.group != "" && p.has(q) {
			return p.group
		}
	}
	return ""
}

// has reports whether a page is this one, or belongs to it: it is below it, or about the same kind
// of thing.
func (p *page) has(q *page) bool {
	return p == q || q != nil && p.path != "" && (strings.HasPrefix(q.path, p.path+"/") || p.about != "" && p.about == q.about)
}
