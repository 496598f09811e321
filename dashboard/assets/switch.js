// The switch of the keys, on the page of help.
import { on } from "./keys.js";

const button = document.querySelector("[data-keys-switch]");
const state = document.querySelector("[data-keys-state]");

function show() {
  button.textContent = on() ? "Switch keys off" : "Switch keys on";
  state.textContent = on() ? "Keys are on in this browser." : "Keys are off in this browser.";
}

button.addEventListener("click", () => {
  try {
    localStorage.setItem("courier-keys", on() ? "off" : "on");
    show();
  } catch {
    state.textContent = "This browser keeps no settings, so keys stay on.";
  }
});
button.hidden = false;
show();
