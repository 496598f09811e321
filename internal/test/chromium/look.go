package chromium

import (
	"cmp"
	"context"
	_ "embed" // contrast.js
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// A Device is what a page is shown on, and what its owner prefers.
type Device struct {
	Width, Height int     // of the window in pixels of CSS; 0 stands for 1280 and 800
	Scale         float64 // pixels of the screen for each of them; 0 stands for 1
	Mobile        bool    // a telephone: the page's viewport counts, and fingers touch

	Dark          bool   // prefers-color-scheme
	ReducedMotion bool   // prefers-reduced-motion
	NoScript      bool   // the page's JavaScript is off; Eval still works
	Zone          string // the time zone, such as "Europe/Berlin"; "" is UTC
}

// Emulate replaces the device. NoScript takes effect with the next document. A
// window of 1280 by 800 at 200 % zoom is one of 640 by 400 with a scale of 2.
func (p *Page) Emulate(d Device) {
	p.t.Helper()
	scheme, motion := "light", "no-preference"
	if d.Dark {
		scheme = "dark"
	}
	if d.ReducedMotion {
		motion = "reduce"
	}
	p.do("emulate", func(ctx context.Context) error {
		return errors.Join(
			p.call(ctx, "Emulation.setDeviceMetricsOverride", object{"width": cmp.Or(d.Width, 1280), "height": cmp.Or(d.Height, 800),
				"deviceScaleFactor": cmp.Or(d.Scale, 1), "mobile": d.Mobile}, nil),
			p.call(ctx, "Emulation.setTouchEmulationEnabled", object{"enabled": d.Mobile}, nil),
			p.call(ctx, "Emulation.setEmulatedMedia", object{"features": []object{
				{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": motion}}}, nil),
			p.call(ctx, "Emulation.setScriptExecutionDisabled", object{"value": d.NoScript}, nil),
			p.call(ctx, "Emulation.setTimezoneOverride", object{"timezoneId": cmp.Or(d.Zone, "UTC")}, nil),
		)
	})
}

// Hide minimizes the window of the page, or shows it again with the focus.
func (p *Page) Hide(hidden bool) {
	p.t.Helper()
	state := map[bool]string{true: "minimized", false: "normal"}[hidden]
	p.do("hide", func(ctx context.Context) error {
		var window struct{ WindowID int }
		if err := p.b.pipe.call(ctx, "", "Browser.getWindowForTarget", object{"targetId": p.target}, &window); err != nil {
			return err
		}
		return errors.Join( // a page that has the focus is visible
			p.call(ctx, "Emulation.setFocusEmulationEnabled", object{"enabled": !hidden}, nil),
			p.b.pipe.call(ctx, "", "Browser.setWindowBounds", object{"windowId": window.WindowID, "bounds": object{"windowState": state}}, nil),
		)
	})
	p.WaitFor(fmt.Sprintf("document.hidden == %v", hidden), 0)
}

// ScreenshotOptions say what is on a screenshot; nil stands for none.
type ScreenshotOptions struct {
	Full     bool   // the whole page in place of what the window shows; 16,000 pixels of the screen at most
	Selector string // only the first element that matches
}

// frame returns the place of an element, or of the page, as part of the latter.
const frame = `function (selector) {
	const page = document.scrollingElement;
	if (!selector) return {x: 0, y: 0, width: page.scrollWidth, height: Math.min(page.scrollHeight, 16000 / devicePixelRatio), scale: 1};
	const e = document.querySelector(selector);
	if (!e) throw new Error("no element matches");
	const r = e.getBoundingClientRect();
	return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height, scale: 1};
}`

// Screenshot writes a PNG file.
func (p *Page) Screenshot(path string, opt *ScreenshotOptions) {
	p.t.Helper()
	params := object{"format": "png"}
	if opt != nil && (opt.Full || opt.Selector != "") {
		var clip object
		p.Eval(apply(frame, opt.Selector), &clip)
		params["clip"], params["captureBeyondViewport"] = clip, true
	}
	p.do("screenshot", func(ctx context.Context) error {
		var r struct{ Data []byte }
		if err := p.call(ctx, "Page.captureScreenshot", params, &r); err != nil {
			return err
		}
		return os.WriteFile(path, r.Data, 0o644)
	})
}

// FirstPaint returns how long after the navigation began the first text or picture
// was on the screen. It waits for that.
func (p *Page) FirstPaint() time.Duration {
	p.t.Helper()
	const entry = `performance.getEntriesByName("first-contentful-paint")[0]`
	var ms float64
	for ends := time.Now().Add(Timeout); ms == 0 && time.Now().Before(ends); {
		p.WaitFor(entry, 0)
		p.Eval(entry+"?.startTime ?? 0", &ms) // 0: another document has come
	}
	return time.Duration(ms * float64(time.Millisecond))
}

// A Node is an element as software for the blind presents it.
type Node struct {
	Role       string // such as "heading", "link", "button"
	Name       string
	Value      string            // of a field
	Depth      int               // the number of nodes above
	Focused    bool              // it has the focus of the keyboard
	Properties map[string]string // such as level, checked, expanded, disabled
}

// String returns the node on one line, indented by its depth.
func (n Node) String() string {
	s := strings.Repeat("  ", n.Depth) + n.Role
	if n.Name != "" {
		s += fmt.Sprintf(" %q", n.Name)
	}
	if n.Value != "" {
		s += fmt.Sprintf(" = %q", n.Value)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Properties)) {
		s += " " + name + "=" + n.Properties[name]
	}
	if n.Focused {
		s += " focused"
	}
	return s
}

// axNode is a node as the browser tells about it.
type axNode struct {
	NodeID     string
	Ignored    bool
	Role       axValue
	Name       axValue
	Value      axValue
	Properties []struct {
		Name  string
		Value axValue
	}
	ChildIDs []string
}

type axValue struct{ Value json.RawMessage }

func (v axValue) String() string {
	var s string
	if json.Unmarshal(v.Value, &s) == nil {
		return s
	}
	return string(v.Value)
}

// AX returns the accessibility tree in its order, without what has no meaning there.
func (p *Page) AX() []Node {
	p.t.Helper()
	var r struct{ Nodes []axNode }
	p.look("accessibility tree", func(ctx context.Context) error {
		r.Nodes = nil
		return p.call(ctx, "Accessibility.getFullAXTree", nil, &r)
	})
	byID := make(map[string]axNode, len(r.Nodes))
	for _, n := range r.Nodes {
		byID[n.NodeID] = n
	}
	var list []Node
	var add func(id string, depth int)
	add = func(id string, depth int) {
		n, ok := byID[id]
		if !ok {
			return
		}
		role := n.Role.String()
		if !n.Ignored && role != "none" && role != "generic" && role != "InlineTextBox" {
			list = append(list, n.node(depth))
			depth++
		}
		for _, child := range n.ChildIDs {
			add(child, depth)
		}
	}
	if len(r.Nodes) > 0 {
		add(r.Nodes[0].NodeID, 0)
	}
	return list
}

// telling are the properties that [Page.AX] returns, each with the value that says
// nothing. Most others repeat a role.
var telling = map[string]string{"level": "", "checked": "", "pressed": "", "expanded": "", "selected": "", "live": "", "hasPopup": "", "roledescription": "",
	"disabled": "false", "required": "false", "invalid": "false", "busy": "false", "modal": "false"}

func (n axNode) node(depth int) Node {
	node := Node{Role: n.Role.String(), Name: n.Name.String(), Value: n.Value.String(), Depth: depth, Properties: make(map[string]string)}
	for _, p := range n.Properties {
		value := p.Value.String()
		if p.Name == "focused" {
			node.Focused = value == "true" && node.Role != "RootWebArea"
		}
		if nothing, ok := telling[p.Name]; ok && value != nothing {
			node.Properties[p.Name] = value
		}
	}
	return node
}

// A Contrast is that of a text with its background, by the formula of WCAG 2.
type Contrast struct {
	Text       string  // its beginning
	Element    string  // such as "main > p.note"
	Ratio      float64 // from 1 to 21; 0 if a picture or gradient is behind the text
	Needed     float64 // 4.5, or 3 for large text: level AA
	Foreground string  // as #rrggbb
	Background string
}

// String returns the contrast on one line.
func (c Contrast) String() string {
	return fmt.Sprintf("%q in %s: %.2f (%s on %s), needed: %.1f", c.Text, c.Element, c.Ratio, c.Foreground, c.Background, c.Needed)
}

//go:embed contrast.js
var contrast string

// Contrast returns the contrast of each text that is shown: those of elements, of
// fields and their placeholders, and those that style sheets insert. The background is
// what the elements around a text paint, and for text in SVG also the shapes that are
// drawn before it. Disabled controls are left out, as WCAG does.
func (p *Page) Contrast() []Contrast {
	p.t.Helper()
	var list []Contrast
	p.Eval(apply(contrast), &list)
	return list
}
