// Instants in the zone of the visitor, how long ago they are, and how long something runs.
// What is shown stands in attributes that styles read: live.js leaves them alone.
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

function distance(seconds) {
  const [size, unit] = units.find(([n]) => Math.abs(seconds) >= n) ?? units[3];
  const n = Math.floor(Math.abs(seconds) / size) + " " + unit;
  return seconds < 0 ? "in " + n : n + " ago";
}

export function show() {
  const now = Date.now();
  for (const t of document.querySelectorAll("time[datetime]")) {
    const at = new Date(t.getAttribute("datetime"));
    t.dataset.ago = distance((now - at) / 1000);
    t.title = local.format(at) + " " + zone;
  }
  for (const t of document.querySelectorAll("[data-since]")) {
    t.dataset.lasts = distance((now - new Date(t.dataset.since)) / 1000).replace(" ago", "");
  }
}

show();
setInterval(() => document.hidden || show(), 5000);
document.addEventListener("visibilitychange", () => document.hidden || show());
document.addEventListener("courier:graft", show);
