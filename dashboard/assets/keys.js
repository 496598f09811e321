// Keys for what links and buttons do: "g" and a letter open a page, "/" goes to the filter,
// "j" and "k" to the next and the previous row, "n" to the next failed one, "x" selects.
// They are off while somebody writes, and as long as localStorage has courier-keys "off".
let went = 0;

function rows(selector) {
  return [...document.querySelectorAll(selector)];
}

function move(list, by) {
  const at = list.findIndex((row) => row.contains(document.activeElement));
  const row = at < 0 ? list[by > 0 ? 0 : list.length - 1] : list[at + by];
  row?.querySelector("a, button, input")?.focus();
}

const actions = {
  "/": () => document.querySelector("[data-filter]")?.focus(),
  j: () => move(rows("[data-row]"), 1),
  k: () => move(rows("[data-row]"), -1),
  n: () => {
    const failed = rows("[data-failed]");
    const after = failed.find((row) => document.activeElement.compareDocumentPosition(row) & Node.DOCUMENT_POSITION_FOLLOWING);
    (after ?? failed[0])?.querySelector("a, button, input")?.focus();
  },
  x: () => document.activeElement?.closest("[data-row]")?.querySelector("input[type=checkbox]")?.click(),
  ".": () => document.querySelector("[data-actions] button, [data-actions] summary")?.focus(),
  "[": () => document.querySelector("[data-previous]")?.click(),
  "]": () => document.querySelector("[data-next]")?.click(),
  "?": () => document.querySelector("[data-key='?']")?.click(),
};

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || localStorage.getItem("courier-keys") === "off") return;
  if (e.target.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  if (e.timeStamp - went < 1500) {
    went = 0;
    const link = document.querySelector(`nav a[data-key="${CSS.escape(e.key)}"]`);
    if (link) {
      e.preventDefault();
      link.click();
      return;
    }
  }
  if (e.key === "g") went = e.timeStamp;
  else if (actions[e.key]) {
    e.preventDefault();
    actions[e.key]();
  }
});
