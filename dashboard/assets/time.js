// How long ago instants are, how long something runs, and in which time zone the server shows
// instants. What is shown stands in attributes that styles read: live.js leaves them alone.
const units = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

// The server learns the zone from a cookie. A page that was made without it is asked for again,
// once: a browser that keeps no cookies goes on with UTC.
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const clock = document.querySelector("[data-clock]");
const kept = (name) => document.cookie.split("; ").find((c) => c.startsWith(name + "="))?.slice(name.length + 1);
function keep(name, value) {
  const path = new URL(document.querySelector(".home").href).pathname;
  document.cookie = `${name}=${value}; path=${path}; max-age=31536000; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
}
if (zone && zone !== (kept("courier-zone") ?? "UTC")) {
  keep("courier-zone", zone);
  if (clock && kept("courier-zone") === zone) addEventListener("load", () => location.reload());
}
clock?.querySelector("button")?.addEventListener("click", () => {
  keep("courier-utc", clock.dataset.clock === "UTC" ? "0" : "1");
  location.reload();
});

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
  for (const t of document.querySelectorAll("time[datetime]")) t.dataset.ago = distance((now - new Date(t.getAttribute("datetime"))) / 1000);
  for (const t of document.querySelectorAll("[data-since]")) {
    t.dataset.lasts = distance((now - new Date(t.dataset.since)) / 1000).replace(" ago", "");
  }
}

show();
setInterval(() => document.hidden || show(), 5000);
document.addEventListener("visibilitychange", () => document.hidden || show());
document.addEventListener("courier:graft", show);
