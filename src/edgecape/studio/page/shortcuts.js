// Keys that work anywhere on the page, and the help that lists all keys.

import { h, iconButton } from "./dom.js";

/** Keys handled where the focus is (stage.js, gallery.js, keypoints.js), told here for the help only. */
const LOCAL = [
  ["Tab", "to the photo, its keypoints, its edges"],
  [", / .", "on a keypoint or edge: to the one before or the next"],
  ["← ↑ → ↓", "on a keypoint: move it 1 pixel (Shift: 10); on the photo: move the crosshair"],
  ["Enter", "on the photo: place a keypoint at the crosshair; with the edge tool, on two keypoints: connect them"],
  ["Delete", "on a keypoint, edge, card or object: remove it"],
  ["Alt+↑ / Alt+↓", "in the list of keypoints: reorder"],
  ["Escape", "let the keypoint go; then back to all photos"],
];
const POINTER = [
  ["Click", "place a keypoint"],
  ["Drag a keypoint", "move it; with the edge tool: connect it to another"],
  ["Click an edge", "with the edge tool: remove it"],
  ["Shift-click", "on photos: accept all from the last one to this"],
  ["Wheel, pinch", "zoom in and out"],
  ["Drag elsewhere", "move the photo (or two fingers)"],
];

const TYPES = "input:not([type=range], [type=checkbox]), select";
const PRESSES = "button, a, input, select, summary, [role=tab]"; // what Space and arrow keys work on themselves

/** shortcuts: [{ keys, about, when() → bool, run(key) }], keys as in "Ctrl+Z" or "P"; without `about`, not in the help. */
export function createShortcuts(shortcuts) {
  addEventListener("keydown", (event) => {
    if (!document.body.classList.contains("ready")) return; // there is no project yet
    if (event.defaultPrevented || event.altKey || document.querySelector("dialog[open], :popover-open")) return;
    const key = pressed(event);
    if (event.target.matches(TYPES)) return;
    if ((key === "Space" || key.startsWith("Arrow")) && event.target.matches(PRESSES)) return;
    const found = shortcuts.find(({ keys, when }) => keys.includes(key) && (when?.() ?? true));
    if (!found) return;
    event.preventDefault();
    found.run(key);
  });
  return () => showHelp(shortcuts.filter(({ about }) => about));
}

/** "Ctrl+Shift+Z", "P", "?": Shift counts with letters only, as other signs need it on some keyboards. */
function pressed({ key, ctrlKey, metaKey, shiftKey }) {
  const shift = shiftKey && /^[a-z]$/i.test(key);
  const name = key === " " ? "Space" : key.length === 1 ? key.toUpperCase() : key;
  return `${ctrlKey || metaKey ? "Ctrl+" : ""}${shift ? "Shift+" : ""}${name}`;
}

function showHelp(shortcuts) {
  const dialog = document.getElementById("help");
  const table = (heading, rows) => [
    h("h3", {}, heading),
    h(
      "dl",
      {},
      rows
        .map(([keys, about]) => [h("dt", {}, ...keys.split(" / ").map((key) => h("kbd", {}, key))), h("dd", {}, about)])
        .flat(),
    ),
  ];
  const close = iconButton("close", "Close help", () => dialog.close());
  const SHOWN = { ArrowLeft: "←", ArrowRight: "→" };
  const keys = shortcuts.map(({ keys: all, shown, about }) => [shown ?? SHOWN[all[0]] ?? all[0], about]);
  const half = Math.ceil(keys.length / 2);
  dialog.replaceChildren(
    h("header", {}, h("h2", { id: "help-title" }, "How it works"), close),
    h(
      "ol",
      { class: "how" },
      h(
        "li",
        {},
        h("strong", {}, "Mark. "),
        "Click the keypoints on one photo and connect those that belong together. More marked photos make it surer.",
      ),
      h(
        "li",
        {},
        h("strong", {}, "Find. "),
        "Drop the other photos. The keypoints appear, each with a score: how probable it is that it is right.",
      ),
      h(
        "li",
        {},
        h("strong", {}, "Correct. "),
        "N opens the photo that most needs a look. Drag what is wrong, press Space to accept and go on. “Use as another ",
        "shot” teaches the model with a corrected photo and searches the rest again.",
      ),
      h(
        "li",
        {},
        h("strong", {}, "Export. "),
        "To COCO and the formats of other tools. Everything is saved in the project folder as you go.",
      ),
    ),
    h(
      "div",
      { class: "columns" },
      h("div", {}, ...table("Mouse, pen, fingers", POINTER), ...table("Keyboard, where the focus is", LOCAL)),
      h("div", {}, ...table("Keyboard, anywhere", keys.slice(0, half))),
      h("div", {}, ...table("More keys", keys.slice(half))),
    ),
  );
  dialog.showModal();
}
