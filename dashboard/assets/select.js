// Selection of rows by their checkboxes: with Shift all from the last one on, and the box
// [data-all], which is hidden without scripts, all of the page. [data-picked] says how many.
const boxes = () => [...document.querySelectorAll("[data-row] input[type=checkbox]")].filter((b) => !b.disabled);
const all = document.querySelector("[data-all]");
const picked = document.querySelector("[data-picked]");
let last;

function show() {
  const list = boxes();
  const n = list.filter((b) => b.checked).length;
  if (all) {
    all.checked = n > 0 && n === list.length;
    all.indeterminate = n > 0 && n < list.length;
  }
  if (picked) picked.textContent = n ? n + " selected" : "";
}

document.addEventListener("mousedown", (e) => {
  if (e.shiftKey && e.target.closest("[data-row] input[type=checkbox], [data-row] label")) e.preventDefault(); // it would select text
});
document.addEventListener("click", (e) => {
  const list = boxes();
  const at = list.indexOf(e.target);
  if (at < 0) return;
  const from = list.indexOf(last);
  if (e.shiftKey && from >= 0) {
    for (const b of list.slice(Math.min(at, from), Math.max(at, from) + 1)) b.checked = e.target.checked;
  }
  last = e.target;
  show();
});
all?.addEventListener("change", () => {
  for (const b of boxes()) b.checked = all.checked;
  show();
});
if (all) all.hidden = false;
document.addEventListener("courier:graft", show);
show();
