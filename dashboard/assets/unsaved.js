// A form that saves asks before one leaves the page with something written in it. The page that
// answers a check has what was sent, which is not saved either.
const form = document.querySelector("form[data-saves]");
let sent = false;

function changed(field) {
  if (field.matches("select")) return [...field.options].some((o) => o.defaultSelected ? !o.selected : o.selected && o.index > 0);
  return field.matches("[type=checkbox], [type=radio]") ? field.checked !== field.defaultChecked : field.matches("input, textarea") && field.value !== field.defaultValue;
}

if (form) {
  form.addEventListener("submit", () => (sent = true));
  form.addEventListener("input", () => (sent = false));
  addEventListener("pageshow", () => (sent = false));
  addEventListener("beforeunload", (e) => {
    if (!sent && (form.dataset.saves === "unsaved" || [...form.elements].some(changed))) e.preventDefault();
  });
}
