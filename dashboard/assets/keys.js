// Keys for what links and buttons do: "g" and a letter open a page, "/" goes to the filter or
// the first field, "j" and "k" to the next and the previous row, "n" to the next failed one, Enter opens the
// row, "x" selects it, "." goes to the actions, "[" and "]" to other items, "?" helps.
// They are off while somebody writes, and as long as the switch on the page of help is off.
let went = -Infinity; // when "g" was pressed; the time of events begins with the page

export function on() {
  try {
    return localStorage.getItem("courier-keys") !== "off";
  } catch {
    return true; // the browser keeps nothing, so nobody has switched them off
  }
}

const focusable = "a[href], button, input, summary";
const field = ":is(input:not([type=hidden]), textarea, select)";
const rows = (selector) => [...document.querySelectorAll(selector)].filter((row) => row.checkVisibility());

function enter(row) {
  (row?.querySelector("th a[href]") ?? row?.querySelector(focusable))?.focus();
}

function move(by) {
  const list = rows("[data-row]");
  const at = list.findIndex((row) => row.contains(document.activeElement));
  enter(at < 0 ? list[by > 0 ? 0 : list.length - 1] : list[at + by]);
}

const row = () => document.activeElement?.closest("[data-row]");
const actions = {
  "/": () => (rows("[data-filter]")[0] ?? rows("main form " + field)[0])?.focus(),
  j: () => move(1),
  k: () => move(-1),
  n: () => {
    const failed = rows("[data-failed]");
    const after = failed.find((f) => f !== row() && document.activeElement.compareDocumentPosition(f) & Node.DOCUMENT_POSITION_FOLLOWING);
    enter(after ?? failed[0]);
  },
  x: () => row()?.querySelector("input[type=checkbox]")?.click(),
  ".": () => (rows(`[data-actions] :is(${field}, button, summary, a)`)[0] ?? rows("main .actions :is(button, a)")[0])?.focus(),
  "[": () => document.querySelector("[data-previous]")?.click(),
  "]": () => document.querySelector("[data-next]")?.click(),
  "?": () => document.querySelector("nav [data-key='?']")?.click(),
};

document.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.isComposing || e.ctrlKey || e.metaKey || e.altKey || !on()) return;
  const box = e.target.matches("input[type=checkbox]");
  if (!box && e.target.closest("input, textarea, select, [contenteditable]")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  let does = actions[e.key];
  if (box && e.key === "Enter") does = () => row()?.querySelector("th a[href]")?.click(); // links do so themselves
  if (e.timeStamp - went < 1500) {
    const link = document.querySelector(`nav a[data-key="${CSS.escape(e.key)}"]`);
    if (link) does = () => link.click();
  }
  went = e.key === "g" ? e.timeStamp : -Infinity;
  if (does) {
    e.preventDefault();
    does();
  }
});
