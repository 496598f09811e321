// One stream for the page: each fragment with data-hash is replaced when it has changed. The
// stream is closed while nobody looks at the page, and "p" or the switch pauses it. Where
// streams don't get through, the page asks every few seconds.
import { graft } from "./graft.js";

const main = document.querySelector("main[data-live]");
const fragments = () => [...main.querySelectorAll("[data-hash]")];
let source, timer, paused = false, over = false, wait = 2000, opened = false, said = 0;

function address() {
  const url = new URL(location.href);
  url.hash = "";
  url.searchParams.delete("done");
  url.searchParams.set("live", main.dataset.live);
  url.searchParams.set("have", fragments().map((f) => f.id + ":" + f.dataset.hash).join(","));
  return url;
}

function apply(patch) {
  const f = document.getElementById(patch.id);
  if (!f) return;
  f.dataset.hash = patch.hash;
  const inside = f.contains(document.activeElement);
  graft(f, patch.html);
  if (inside && !f.contains(document.activeElement)) { // what had the focus is gone: keys go on here
    f.tabIndex = -1;
    f.focus({ preventScroll: true });
  }
  announce(f);
}

// announce tells who can't see the page how the execution stands, at most every 5 seconds.
const status = Object.assign(document.createElement("p"), { className: "hidden" });
status.setAttribute("role", "status");
function announce(f) {
  const lead = f.querySelector(".lead")?.textContent.trim();
  if (!lead || lead === status.dataset.said) return;
  const due = Math.max(0, said + 5000 - Date.now());
  said = Date.now() + due;
  status.dataset.said = lead;
  setTimeout(() => (status.textContent = lead), due);
}

function close() {
  source?.close();
  source = undefined;
  clearTimeout(timer);
}

async function poll() {
  try {
    const answer = await fetch(address(), { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.status);
    for (const patch of (await answer.json()).patches) apply(patch);
    wait = 5000;
  } catch {
    wait = Math.min(wait * 2, 60000);
  }
  if (!paused && !document.hidden) timer = setTimeout(opened ? open : poll, wait);
}

function open() {
  close();
  if (paused || over || document.hidden || !fragments().length) return;
  source = new EventSource(address());
  source.onopen = () => { opened = true; wait = 2000; };
  source.addEventListener("patch", (e) => apply(JSON.parse(e.data)));
  source.addEventListener("end", () => { over = true; close(); show(); });
  source.onerror = () => {
    close();
    timer = setTimeout(poll, wait);
  };
}

const button = document.createElement("button");
button.type = "button";
button.className = "live";
function show() {
  button.hidden = over;
  button.textContent = paused ? "Paused: go on" : "Live: pause";
}
function toggle() {
  paused = !paused;
  show();
  paused ? close() : open();
}
if (main && fragments().length) {
  button.addEventListener("click", toggle);
  document.querySelector("h1").after(button, status);
  document.addEventListener("keydown", (e) => {
    if (e.key === "p" && !e.ctrlKey && !e.metaKey && !e.altKey && !e.target.closest("input, textarea, select") && localStorage.getItem("courier-keys") !== "off") toggle();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  show();
  open();
}
