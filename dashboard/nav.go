package dashboard

import (
	"strconv"
	"strings"
)

// navGroups are the groups of the links at the top of all pages: Work is for the daily work,
// Partners has the partners with whom files are exchanged, Rules says what is executed and when,
// and Administration is about the service itself. The pages of the current group are in a second
// line. The key "g" and the number of a group open its first page.
var navGroups = []string{"Work", "Partners", "Rules", "Administration"}

// A navGroup is a group with those of its pages that the visitor may see.
type navGroup struct {
	Label, Href, Key string
	Current          bool // the current page is in the group
	Items            []navItem
}

// nav returns the links at the top of the page. A group without a page that the visitor may see is
// left out.
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

// groupOf returns the group of a page. A page without a group has the group of the page to which it
// belongs. The result is empty if there is none.
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

// has reports whether q is this page or belongs to it: q is below it, or about the same kind of
// subject.
func (p *page) has(q *page) bool {
	return p == q || q != nil && p.path != "" && (strings.HasPrefix(q.path, p.path+"/") || p.about != "" && p.about == q.about)
}
