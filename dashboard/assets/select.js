// A box that selects all rows of a list, ranges with shift, and how many are selected.
const boxes = () => [...document.querySelectorAll("[data-row] input[type=checkbox]")];
let last;

function count() {
  const n = boxes().filter((b) => b.checked).length;
  const all = document.querySelector("[data-all]");
  if (!all) return;
  all.checked = n > 0 && n === boxes().length;
  all.indeterminate = n > 0 && !all.checked;
  document.querySelector("[data-selected]").textContent = n ? n + " selected" : "";
}

document.addEventListener("mousedown", (e) => {
  const box = e.target.closest("[data-row] input[type=checkbox]");
  if (!box || !e.shiftKey) return;
  e.preventDefault(); // shift would select the text in between
  box.focus();
});

document.addEventListener("click", (e) => {
  const box = e.target.closest("input[type=checkbox]");
  if (!box) return;
  if (box.matches("[data-all]")) {
    for (const b of boxes()) b.checked = box.checked;
  } else if (box.closest("[data-row]")) {
    const list = boxes();
    const [from, to] = [list.indexOf(last), list.indexOf(box)].sort((a, b) => a - b);
    if (e.shiftKey && from >= 0) for (const b of list.slice(from, to + 1)) b.checked = box.checked;
    last = box;
  }
  count();
});
document.addEventListener("courier:graft", count);
count();
