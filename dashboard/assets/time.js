// Instants in the zone of the visitor, how long ago they are, and how long something runs.
// What is shown stands in attributes that styles read: live.js leaves them alone.
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

// Of days and hours fewer than ten the next unit stands too: 1 h 54 min is not 1 h.
function distance(seconds) {
  const length = Math.abs(seconds);
  const at = units.findIndex(([size]) => length >= size);
  const [size, unit] = units.at(at); // the last one for less than a second
  const n = Math.floor(length / size);
  let text = n + " " + unit;
  if (size >= 3600 && n < 10) {
    const [smaller, name] = units[at + 1];
    const rest = Math.floor(length % size / smaller);
    if (rest > 0) text += " " + rest + " " + name;
  }
  return seconds < 0 ? "in " + text : text + " ago";
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
