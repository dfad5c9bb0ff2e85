// Keypoints of known kinds to begin with: put on the photo, to be dragged to where they belong.

import * as edits from "./edits.js";
import { h, s } from "./dom.js";
import { say } from "./notices.js";
import { colour } from "./palette.js";

const MARGIN = 0.15; // of the photo, around a template where there is no box

/** templates: [{ name, about, names, skeleton, places }], places as shares of a box. */
export function fillTemplates(store, templates) {
  const menu = document.getElementById("template-menu");
  const items = templates.map((template) =>
    h(
      "button",
      { type: "button", onclick: () => (menu.hidePopover(), drop(template)) },
      drawing(template),
      h("span", {}, template.name[0].toUpperCase() + template.name.slice(1)),
      h("small", {}, template.about),
    ),
  );
  menu.append(h("h2", {}, "Keypoints of a known kind"), ...items);

  function drop(template) {
    const { doc, look, photos } = store;
    const shot = doc.shots[look.shot];
    const { width, height } = photos[shot.photo];
    const inner = [MARGIN * width, MARGIN * height, (1 - 2 * MARGIN) * width, (1 - 2 * MARGIN) * height];
    store.change((now) => edits.addTemplate(now, look.shot, template, shot.box ?? inner));
    store.show({ selected: null, tool: "point" });
    say(`${template.names.length} keypoints placed. Drag each to where it belongs.`);
    document.getElementById("mark-stage").focus();
  }
}

function drawing({ skeleton, places }) {
  const at = ([x, y]) => [4 + 32 * x, 4 + 32 * y];
  const lines = skeleton.map(([i, j]) => {
    const [[x1, y1], [x2, y2]] = [at(places[i]), at(places[j])];
    return s("line", { x1, y1, x2, y2 });
  });
  const dots = places.map((place, k) => s("circle", { cx: at(place)[0], cy: at(place)[1], r: 2.2, fill: colour(k) }));
  return s("svg", { viewBox: "0 0 40 40", class: "template", "aria-hidden": "true" }, lines, dots);
}
