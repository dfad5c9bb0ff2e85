// Messages. What passes is shown for a moment over the page and takes no click; what needs an answer or went wrong is
// one line in a list at the bottom that has its own room, can be folded, and stays until it is dealt with.

import { count, h, iconButton } from "./dom.js";

const SHORT = 5000; // milliseconds a passing message stays

export function say(text) {
  document.getElementById("live").textContent = text;
}

/** kind: "info" or "problem"; actions: [[label, run]]; key: a later message with the same key takes its place. */
export function notify(text, { kind = "info", actions = [], key = text } = {}) {
  dismiss(key);
  if (kind === "info" && !actions.length) return pass(text);
  const list = document.getElementById("notice-list");
  const notice = h("li", { class: `notice ${kind}`, role: kind === "problem" ? "alert" : "status", "data-key": key });
  const close = () => (notice.remove(), tell());
  const buttons = actions.map(([label, run]) =>
    h("button", { type: "button", class: "text", onclick: () => (close(), run()) }, label),
  );
  notice.append(h("p", {}, text), ...buttons, iconButton("close", "Dismiss this message", close));
  list.append(notice);
  tell();
  list.scrollTop = list.scrollHeight;
}

let timer = null;
function pass(text) {
  const passing = document.getElementById("passing");
  passing.replaceChildren(h("p", {}, text));
  clearTimeout(timer);
  timer = setTimeout(() => passing.replaceChildren(), SHORT);
}

export function dismiss(key) {
  for (const notice of document.querySelectorAll(".notice")) if (notice.dataset.key === key) notice.remove();
  tell();
}

/** The line above the list: how many there are; folded or not is up to the person. */
function tell() {
  const [host, list] = ["notices", "notice-list"].map((id) => document.getElementById(id));
  const problems = list.querySelectorAll(".problem").length;
  host.hidden = !list.children.length;
  document.getElementById("notice-count").textContent = problems
    ? count(problems, "problem")
    : count(list.children.length, "message");
  document.getElementById("notice-clear").hidden = list.children.length < 2;
}

document.getElementById("notice-clear").onclick = () => {
  document.getElementById("notice-list").replaceChildren();
  tell();
};

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
