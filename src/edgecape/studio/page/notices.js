// Messages: one place on the screen, read aloud, gone by themselves unless they need an answer.

import { h, iconButton } from "./dom.js";

const SHORT = 6000; // milliseconds a message stays that needs no answer

export function say(text) {
  document.getElementById("live").textContent = text;
}

/** kind: "info" or "problem"; actions: [[label, run]]; key: a later message with the same key takes its place. */
export function notify(text, { kind = "info", actions = [], key = null } = {}) {
  const host = document.getElementById("notices");
  if (key !== null) dismiss(key);
  const notice = h("div", { class: `notice ${kind}`, role: kind === "problem" ? "alert" : "status", "data-key": key });
  const close = () => notice.remove();
  const buttons = actions.map(([label, run]) =>
    h("button", { type: "button", onclick: () => (close(), run()) }, label),
  );
  notice.append(h("p", {}, text), ...buttons, iconButton("close", "Dismiss this message", close));
  host.append(notice);
  while (host.children.length > 4) host.firstChild.remove();
  if (kind === "info" && !actions.length) setTimeout(close, SHORT);
}

export function dismiss(key) {
  document.querySelector(`.notice[data-key="${key}"]`)?.remove();
}

/** A question that must be answered before going on; resolves to the chosen value or null. */
export function ask(title, text, choices) {
  const dialog = document.getElementById("ask");
  return new Promise((resolve) => {
    const pick = (value) => (dialog.close(), resolve(value));
    const buttons = choices.map(([label, value, kind = ""]) =>
      h("button", { type: "button", class: kind, onclick: () => pick(value) }, label),
    );
    const heading = h("h2", { id: "ask-title" }, title);
    dialog.replaceChildren(
      heading,
      h("p", {}, text),
      h("div", { class: "row" }, h("button", { type: "button", onclick: () => pick(null) }, "Cancel"), ...buttons),
    );
    dialog.oncancel = () => resolve(null);
    dialog.showModal();
  });
}
