// The list of keypoints: rename, reorder, hide, delete, and which of them the photo still lacks. By keyboard it is two
// stops, the chosen row's button and its name; keys do what the small buttons do.

import * as edits from "./edits.js";
import { h, icon, iconButton, pool, roving, s, set } from "./dom.js";
import { colour } from "./palette.js";

/** actions: { select(k), rename(k, name) → name now, remove(k), hide(k), say(text) }. */
export function createKeypointList(store, actions) {
  const list = document.getElementById("keypoint-list");
  const badge = document.getElementById("keypoint-count");
  const hint = document.getElementById("keypoint-hint");

  const update = pool(list, makeRow, (row, { name, point }, k) => {
    const { look } = store;
    set(row, { class: `${look.selected === k ? "selected " : ""}${point ? "" : "missing"}` });
    set(row.dot, { fill: point && !point.hidden ? colour(k) : "none", stroke: colour(k) });
    if (document.activeElement !== row.name) row.name.value = name;
    const stop = k === (look.selected ?? 0) ? "0" : "-1";
    set(row.name, { "aria-label": `Name of keypoint ${k + 1}`, tabindex: stop });
    set(row.dotButton, { tabindex: stop });
    set(row.grip, {
      "aria-label": `Move ${name} up or down in the list with the arrow keys`,
      title: "Drag to reorder",
    });
    set(row.bin, { "aria-label": `Delete ${name}`, title: `Delete ${name}` });
    set(row.dotButton, {
      "aria-label": point ? `Select ${name}` : `Place ${name} next`,
      title: point ? "Select" : "Place this one next",
    });
    const title = point?.hidden ? "Hidden on this photo" : "Visible on this photo";
    set(row.eye, {
      "aria-label": `${name} is hidden on this photo`,
      "aria-pressed": String(Boolean(point?.hidden)),
      title,
      disabled: !point,
    });
    row.eye.firstChild.firstChild.setAttribute("href", point?.hidden ? "#icon-hidden" : "#icon-eye");
  });

  roving(list, () => [...list.children].map((row) => row.dotButton));

  function makeRow(k) {
    const row = h("li");
    row.dot = s("circle", { cx: 8, cy: 8, r: 5.5, "stroke-width": 2.5 });
    const drawing = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, row.dot);
    row.dotButton = h("button", { type: "button", class: "dot", onclick: () => actions.select(k) }, drawing);
    row.name = h("input", { autocomplete: "off", spellcheck: "false", maxlength: "100" });
    row.name.onfocus = () =>
      store.look.selected !== k && store.doc.shots[store.look.shot]?.points[k] && store.show({ selected: k });
    row.name.onchange = () => (row.name.value = actions.rename(k, row.name.value));
    row.name.onkeydown = (event) => {
      if (event.key === "Enter") row.name.blur();
      if (event.key === "Escape") ((row.name.value = store.doc.names[k]), row.name.blur());
    };
    row.eye = iconButton("eye", "", () => actions.hide(k), { tabindex: "-1" });
    row.bin = iconButton("bin", "", () => actions.remove(k), { tabindex: "-1" });
    row.grip = h("button", { type: "button", class: "grip", tabindex: "-1" }, icon("grip"));
    row.dotButton.onkeydown = (event) => {
      const step = event.altKey && { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (step) reorder(k, k + step, null, "dotButton");
      else if (event.key === "Delete") actions.remove(k);
      else if (event.key === "F2") row.name.focus();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    row.grip.onkeydown = (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (step) (event.preventDefault(), reorder(k, k + step));
    };
    row.grip.onpointerdown = (event) => dragRow(event, row.grip, k);
    row.append(row.grip, row.dotButton, row.name, row.eye, row.bin);
    return row;
  }

  function reorder(k, to, merge = null, focus = "grip") {
    if (to < 0 || to >= store.doc.names.length || to === k) return;
    const name = store.doc.names[k];
    store.change((doc) => edits.reorderPoint(doc, k, to), merge);
    store.show({ selected: to });
    if (merge === null) list.children[to][focus].focus();
    actions.say(`${name} is now number ${to + 1}`);
  }

  function dragRow(event, grip, k) {
    const merge = `reorder ${performance.now()}`;
    grip.setPointerCapture(event.pointerId);
    grip.onpointermove = (moved) => {
      const to = [...list.children].findIndex((row) => moved.clientY < row.getBoundingClientRect().bottom);
      const target = to < 0 ? list.children.length - 1 : to;
      if (target !== k) (reorder(k, target, merge), (k = target));
    };
    grip.onpointerup = grip.onpointercancel = () => (grip.onpointermove = null);
  }

  return function render() {
    const { doc, look } = store;
    const shot = doc.shots[look.shot];
    update(doc.names.map((name, k) => ({ name, point: shot?.points[k] })));
    badge.textContent = doc.names.length || "";
    const lacking = shot ? edits.missing(doc, look.shot) : [];
    const listed = (numbers) => numbers.map((k) => doc.names[k]).join(", ");
    const nowhere = shot && lacking.length < doc.names.length ? edits.unplaced(doc) : [];
    hint.textContent = !doc.names.length
      ? "Each place you click becomes a keypoint. Their names appear here."
      : lacking.length
        ? `Not on this photo yet: ${listed(lacking)}.` +
          (nowhere.length ? ` Not looked for, because no photo shows it: ${listed(nowhere)}.` : "")
        : "";
    hint.hidden = !hint.textContent;
  };
}
