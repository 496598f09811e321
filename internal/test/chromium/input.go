package chromium

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// A key is a key of a keyboard of the United States.
type key struct {
	name string // KeyboardEvent.key
	code string // KeyboardEvent.code
	text string // that it writes, or ""
	vk   int    // the number that Windows has for it
}

// named are the keys that write no character, and those that have a name besides.
var named = map[string]key{
	"Tab": {"Tab", "Tab", "", 9}, "Enter": {"Enter", "Enter", "\r", 13}, "Escape": {"Escape", "Escape", "", 27},
	"Space": {" ", "Space", " ", 32}, "Backspace": {"Backspace", "Backspace", "", 8}, "Delete": {"Delete", "Delete", "", 46},
	"ArrowLeft": {"ArrowLeft", "ArrowLeft", "", 37}, "ArrowUp": {"ArrowUp", "ArrowUp", "", 38},
	"ArrowRight": {"ArrowRight", "ArrowRight", "", 39}, "ArrowDown": {"ArrowDown", "ArrowDown", "", 40},
	"PageUp": {"PageUp", "PageUp", "", 33}, "PageDown": {"PageDown", "PageDown", "", 34},
	"End": {"End", "End", "", 35}, "Home": {"Home", "Home", "", 36},
}

// signs are the keys with two signs each, without and with Shift.
var signs = []struct {
	both, code string
	vk         int
}{
	{"1!", "Digit1", 49}, {"2@", "Digit2", 50}, {"3#", "Digit3", 51}, {"4$", "Digit4", 52}, {"5%", "Digit5", 53},
	{"6^", "Digit6", 54}, {"7&", "Digit7", 55}, {"8*", "Digit8", 56}, {"9(", "Digit9", 57}, {"0)", "Digit0", 48},
	{"`~", "Backquote", 192}, {"-_", "Minus", 189}, {"=+", "Equal", 187}, {"[{", "BracketLeft", 219}, {"]}", "BracketRight", 221},
	{"\\|", "Backslash", 220}, {";:", "Semicolon", 186}, {"'\"", "Quote", 222}, {",<", "Comma", 188}, {".>", "Period", 190}, {"/?", "Slash", 191},
}

// The modifiers, which are added up.
var modifiers = map[string]int{"Alt": 1, "Control": 2, "Meta": 4, "Shift": 8}

const shift = 8

// keyOf returns the key that writes a character, and whether with Shift.
func keyOf(r rune) (k key, shifted, ok bool) {
	text := string(r)
	switch {
	case r == ' ':
		return named["Space"], false, true
	case r == '\n':
		return named["Enter"], false, true
	case r < unicode.MaxASCII && unicode.IsLetter(r):
		upper := unicode.ToUpper(r)
		return key{text, "Key" + string(upper), text, int(upper)}, r == upper, true
	}
	for _, s := range signs {
		if i := strings.IndexRune(s.both, r); i >= 0 {
			return key{text, s.code, text, s.vk}, i == 1, true
		}
	}
	return key{}, false, false
}

// chord returns the key and the modifiers of a text such as "Control+Enter".
func chord(s string) (key, int, error) {
	held := 0
	name := s
	for {
		before, after, ok := strings.Cut(name, "+")
		m := modifiers[before]
		if !ok || m == 0 || after == "" {
			break
		}
		held |= m
		name = after
	}
	if k, ok := named[name]; ok {
		return k, held, nil
	}
	if r := []rune(name); len(r) == 1 {
		if held&shift != 0 {
			r[0] = unicode.ToUpper(r[0])
		}
		if k, shifted, ok := keyOf(r[0]); ok {
			if shifted {
				held |= shift
			}
			return k, held, nil
		}
	}
	return key{}, 0, fmt.Errorf("no key %q: it is a character of ASCII or one of %s, after any of %s, each with a +",
		name, strings.Join(slices.Sorted(maps.Keys(named)), ", "), strings.Join(slices.Sorted(maps.Keys(modifiers)), ", "))
}

// Press presses and releases a key of the keyboard for whatever has the focus: a
// character, or a key such as "Tab", "Enter", "Escape" or "ArrowDown", after modifiers
// such as "Shift+" and "Control+".
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.do("press "+keys, func(ctx context.Context) error {
		k, held, err := chord(keys)
		if err != nil {
			return err
		}
		return p.press(ctx, k, held)
	})
}

func (p *Page) press(ctx context.Context, k key, held int) error {
	down := object{"type": "rawKeyDown", "modifiers": held, "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.vk}
	if k.text != "" && held&^shift == 0 {
		down["type"], down["text"] = "keyDown", k.text
	}
	if k.name == "a" && held == modifiers["Control"] { // the browser's window would see to it
		down["commands"] = []string{"selectAll"}
	}
	if err := p.call(ctx, "Input.dispatchKeyEvent", down, nil); err != nil {
		return err
	}
	return p.call(ctx, "Input.dispatchKeyEvent",
		object{"type": "keyUp", "modifiers": held, "key": k.name, "code": k.code, "windowsVirtualKeyCode": k.vk}, nil)
}

// Type writes a text into what has the focus, key by key. Characters that the
// keyboard lacks are inserted as an input method does.
func (p *Page) Type(text string) {
	p.t.Helper()
	for _, r := range text {
		p.do("type "+short(text), func(ctx context.Context) error {
			k, shifted, ok := keyOf(r)
			if !ok {
				return p.call(ctx, "Input.insertText", object{"text": string(r)}, nil)
			}
			held := 0
			if shifted {
				held = shift
			}
			return p.press(ctx, k, held)
		})
	}
}

// locate finds what a selector means and where on the screen it can be clicked.
const locate = `function (selector) {
	const found = document.querySelectorAll(selector);
	if (found.length != 1) throw new Error(found.length + " elements match, not one");
	const e = found[0];
	e.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
	const r = e.getClientRects()[0];
	if (!r || !r.width || !r.height) throw new Error("the element is not shown");
	const at = {x: r.x + r.width / 2, y: r.y + r.height / 2};
	const top = document.elementFromPoint(at.x, at.y);
	if (!top) throw new Error("the element is outside of the window");
	if (!e.contains(top) && top.closest("label")?.control != e)
		throw new Error("the element is covered by " + top.cloneNode(false).outerHTML);
	return at;
}`

// Click clicks on the one element that a selector of CSS matches, with the mouse, at
// its middle, while modifiers such as "Shift" are held. It fails the test if something
// else lies on top. Use it within [Page.Navigate] where a document follows.
func (p *Page) Click(selector string, held ...string) {
	p.t.Helper()
	var at struct{ X, Y float64 }
	p.look("click "+selector, func(ctx context.Context) error { return p.evaluate(ctx, apply(locate, selector), &at) })
	p.do("click "+selector, func(ctx context.Context) error {
		mask := 0
		for _, name := range held {
			if modifiers[name] == 0 {
				return fmt.Errorf("no modifier %q", name)
			}
			mask |= modifiers[name]
		}
		for _, e := range []object{
			{"type": "mouseMoved"},
			{"type": "mousePressed", "button": "left", "buttons": 1, "clickCount": 1},
			{"type": "mouseReleased", "button": "left", "clickCount": 1},
		} {
			e["x"], e["y"], e["modifiers"] = at.X, at.Y, mask
			if err := p.call(ctx, "Input.dispatchMouseEvent", e, nil); err != nil {
				return err
			}
		}
		return nil
	})
}
