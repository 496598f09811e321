function () {
	// rgba returns the red, green, blue (0 to 255) and opacity (0 to 1) of a color in
	// any notation.
	const canvas = document.createElement("canvas");
	canvas.width = canvas.height = 1;
	const context = canvas.getContext("2d", { willReadFrequently: true });
	const known = new Map();
	const rgba = color => {
		if (!known.has(color)) {
			context.clearRect(0, 0, 1, 1);
			context.fillStyle = "transparent";
			context.fillStyle = color;
			context.fillRect(0, 0, 1, 1);
			const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
			known.set(color, [r, g, b, a / 255]);
		}
		return known.get(color);
	};

	// over lays one color over another one.
	const over = (top, bottom) => {
		const a = top[3] + bottom[3] * (1 - top[3]);
		const mix = i => a && (top[i] * top[3] + bottom[i] * bottom[3] * (1 - top[3])) / a;
		return [mix(0), mix(1), mix(2), a];
	};
	const faded = (color, opacity) => [color[0], color[1], color[2], color[3] * opacity];

	// luminance and ratio are those of WCAG.
	const luminance = color => {
		const [r, g, b] = color.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ratio = (a, b) => {
		const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
		return (light + 0.05) / (dark + 0.05);
	};
	const hex = color => "#" + color.slice(0, 3).map(v => Math.round(v).toString(16).padStart(2, "0")).join("");

	// page is the color of the empty page in its color scheme.
	const probe = document.createElement("span");
	probe.style.color = "Canvas";
	document.documentElement.append(probe);
	const page = rgba(getComputedStyle(probe).color);
	probe.remove();

	// shapes returns the fills that an SVG element is drawn on, the uppermost first.
	const shapes = (element, box) => {
		const svg = element.closest("svg");
		if (!svg) return [];
		const x = box.x + box.width / 2, y = box.y + box.height / 2;
		return [...svg.querySelectorAll("rect, circle, ellipse, polygon, path")].filter(shape => {
			const r = shape.getBoundingClientRect();
			return shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING && !shape.closest("defs, clipPath, mask, marker, symbol, pattern")
				&& shape.checkVisibility({ visibilityProperty: true }) && r.left <= x && x <= r.right && r.top <= y && y <= r.bottom;
		}).reverse();
	};

	// painted returns the colors of a text and of what is behind it on the screen. The
	// style is that of the pseudo-element that has the text, or of the element.
	const painted = (element, own, box, pseudo) => {
		const svg = element instanceof SVGElement;
		let front = svg ? faded(rgba(own.fill), own.fillOpacity) : rgba(own.color), back = [0, 0, 0, 0], picture = false;
		const under = (paint, opacity) => {
			const layer = faded(rgba(paint), opacity);
			front = over(front, layer);
			back = over(back, layer);
		};
		if (pseudo) {
			under(own.backgroundColor, 1);
			front = faded(front, own.opacity);
			back = faded(back, own.opacity);
		}
		for (const shape of shapes(element, box)) {
			const style = getComputedStyle(shape);
			if (style.fill.startsWith("url(")) picture ||= back[3] < 1;
			else if (style.fill != "none") under(style.fill, style.fillOpacity * style.opacity);
		}
		for (let e = element; e; e = e.parentElement) {
			const style = getComputedStyle(e);
			if (!(e instanceof SVGElement) || e.localName == "svg") {
				if (style.backgroundImage != "none" && back[3] < 1) picture = true;
				under(style.backgroundColor, 1);
			}
			front = faded(front, style.opacity);
			back = faded(back, style.opacity);
		}
		return { front: over(front, page), back: over(back, page), picture };
	};

	// hidden reports whether an element is shown to software only: cut off to a pixel.
	const hidden = element => {
		for (let e = element; e; e = e.parentElement) {
			const style = getComputedStyle(e);
			if (style.overflowX != "visible" && e.clientWidth <= 1 && style.display != "inline" && e.localName != "svg") return true;
			if (style.clipPath == "inset(50%)" || style.clip == "rect(0px, 0px, 0px, 0px)") return true;
		}
		return false;
	};

	const name = e => {
		const self = n => n.localName + (n.id ? "#" + n.id : [...n.classList].map(c => "." + c).join(""));
		return (e.parentElement ? self(e.parentElement) + " > " : "") + self(e);
	};

	const list = [];
	const add = (element, text, style, box, suffix = "") => {
		if (!text.trim() || !box || !box.width || !box.height || element.closest(":disabled")) return;
		if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true, contentVisibilityAuto: true }) || hidden(element)) return;
		const { front, back, picture } = painted(element, style, box, suffix != "");
		const size = parseFloat(style.fontSize), large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		list.push({
			Text: text.trim().replace(/\s+/g, " ").slice(0, 60), Element: name(element) + suffix,
			Ratio: picture ? 0 : ratio(front, back), Needed: large ? 3 : 4.5, Foreground: hex(front), Background: hex(back),
		});
	};

	const range = document.createRange();
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement;
		if (element.localName == "details" && !element.open || getComputedStyle(element).contentVisibility == "hidden") continue;
		if (element.closest("script, style, noscript, template, option, textarea, title, desc, head")) continue;
		range.selectNodeContents(walker.currentNode);
		add(element, walker.currentNode.data, getComputedStyle(element), range.getBoundingClientRect());
	}
	for (const e of document.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio], [type=range], [type=color]), textarea, select")) {
		const placeholder = !e.value && e.placeholder, box = e.getBoundingClientRect();
		if (placeholder) add(e, placeholder, getComputedStyle(e, "::placeholder"), box, "::placeholder");
		else add(e, e.localName == "select" ? e.selectedOptions[0]?.text ?? "" : e.value, getComputedStyle(e), box);
	}
	for (const e of document.body.querySelectorAll("*")) {
		for (const pseudo of ["::before", "::after"]) {
			const style = getComputedStyle(e, pseudo);
			const text = style.content.match(/"((?:[^"\\]|\\.)*)"/)?.[1];
			if (text && style.display != "none") add(e, text, style, e.getBoundingClientRect(), pseudo);
		}
	}
	return list;
}
