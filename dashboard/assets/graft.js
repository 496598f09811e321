// graft makes the children of an element those of a text of HTML, and keeps the nodes that are
// there already: so that focus, selection, what somebody has typed and what is open stay.
const kept = new Set(["open", "data-ago", "data-lasts"]);

export function graft(element, html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  children(element, template.content);
  document.dispatchEvent(new Event("courier:graft"));
}

function children(old, fresh) {
  const ids = new Map();
  for (const n of old.children) if (n.id) ids.set(n.id, n);
  let at = old.firstChild;
  for (const n of [...fresh.childNodes]) {
    const twin = n.id ? ids.get(n.id) : like(at, n) ? at : ahead(at, n);
    if (!twin) {
      old.insertBefore(n, at);
      continue;
    }
    if (twin !== at && !twin.contains(document.activeElement)) old.insertBefore(twin, at);
    else {
      while (at !== twin) { // what has the focus stays, and the others move
        const next = at.nextSibling;
        old.append(at);
        at = next;
      }
      at = at.nextSibling;
    }
    merge(twin, n);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// ahead returns the next element that can become a fresh one, where others before it have
// gone: a form stays itself when the paragraph above it disappears.
function ahead(at, n) {
  for (let i = 0; at && n.nodeType === Node.ELEMENT_NODE && i < 8; i++, at = at.nextSibling) if (like(at, n)) return at;
  return null;
}

function like(a, b) {
  return a && a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.id;
}

function merge(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
    return;
  }
  if (old.isEqualNode(fresh)) return;
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !kept.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && name !== "open") old.setAttribute(name, value);
  }
  if (!old.matches("textarea, select")) children(old, fresh);
}
