// Instants of schedules by the clock of the visitor, beside those in UTC and in the zone of
// the schedule, and a button that shows the calendar in the zone of the visitor.
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
const input = document.querySelector("input[data-zone]");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const whole = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" });

if (here && here !== "UTC" && here !== input?.value) {
  for (const t of document.querySelectorAll("time[data-clock]")) {
    t.dataset.here = clock.format(new Date(t.dateTime)) + " here";
  }
  for (const t of document.querySelectorAll("[data-clock]:not(time)")) {
    t.dataset.here = whole.format(new Date(t.querySelector("time").dateTime)) + " " + here;
  }
  if (input) {
    const button = document.createElement("button");
    button.textContent = "Show in " + here;
    button.addEventListener("click", () => (input.value = here));
    input.form.append(button);
  }
}
