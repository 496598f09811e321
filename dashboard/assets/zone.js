// Instants of schedules by the clock of the visitor, beside those in UTC and in the zone of
// the schedule, and a button that shows the calendar in the zone of the visitor.
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const input = document.querySelector("input[data-zone]");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

function show() {
  for (const t of document.querySelectorAll("[data-clock]")) {
    const at = new Date(t.querySelector("time").dateTime);
    const own = t.querySelector("span")?.textContent.endsWith(" " + here);
    if (t.tagName === "SPAN") t.dataset.here = whole.format(at) + " " + here;
    else if (!own) t.dataset.here = clock.format(at) + " here";
  }
}

if (here && here !== "UTC" && here !== input?.value) {
  show();
  document.addEventListener("courier:graft", show);
  if (input) {
    const button = document.createElement("button");
    button.textContent = "Show in " + here;
    button.addEventListener("click", () => (input.value = here));
    input.form.append(button);
  }
}
