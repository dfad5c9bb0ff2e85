// The objects of the open photo: one box and one pose each.

import * as edits from "./edits.js";
import { h, icon, iconButton, pool, roving, set } from "./dom.js";

/** actions: { open(index), draw(), previous() → photo before or null, say(text) }. */
export function createObjects(store, finder, actions) {
  const list = h("div", { class: "objects", role: "group", "aria-label": "Objects on this photo" });
  roving(list, () => [...list.children].map(({ firstChild }) => firstChild), { across: true });
  const draw = h(
    "button",
    { type: "button", title: "Draw a box around another object (O)", onclick: actions.draw },
    icon("plus"),
    "Another object",
  );
  const copy = h(
    "button",
    { type: "button", class: "text", onclick: copyBoxes },
    icon("copy"),
    "Boxes of the photo before",
  );
  const element = h(
    "section",
    { class: "column" },
    h("h3", {}, "Objects"),
    list,
    h("div", { class: "row" }, draw, copy),
  );

  const boxesOf = (photo) => store.doc.queries.filter((query) => query.photo === photo && query.box);
  const here = () => {
    const { photo } = store.doc.queries[store.look.query];
    return [...store.doc.queries.keys()].filter((n) => store.doc.queries[n].photo === photo);
  };

  const update = pool(
    list,
    (n) => {
      const open = h("button", { type: "button", class: "toggle", onclick: () => actions.open(here()[n]) });
      const away = iconButton("close", "", () => remove(here()[n]), { tabindex: "-1" });
      return Object.assign(h("div", { class: "object" }, open, away), { open, away });
    },
    (item, index, n) => {
      const { queries } = store.doc;
      const words = queries[index].box ? `Object ${n + 1}` : "Whole photo";
      const state = { waiting: "waiting", failed: "failed", accepted: "accepted" }[queries[index].state];
      const chosen = index === store.look.query;
      item.open.textContent = state ? `${words} (${state})` : words;
      set(item.open, { "aria-pressed": String(chosen), tabindex: chosen ? "0" : "-1" });
      set(item.away, {
        "aria-label": `Remove ${words.toLowerCase()}`,
        title: "Remove (Delete)",
        hidden: here().length < 2,
      });
    },
  );
  list.addEventListener("keydown", (event) => {
    if (event.key !== "Delete" || here().length < 2) return;
    event.stopPropagation();
    remove(store.look.query);
    list.querySelector("[tabindex='0']")?.focus();
  });

  function remove(index) {
    const objects = here();
    const left = objects.filter((n) => n !== index);
    const next = left[Math.min(objects.indexOf(index), left.length - 1)];
    store.change((doc) => edits.removeQuery(doc, index));
    store.show({ query: next > index ? next - 1 : next, selected: null });
    actions.say("Object removed. Undo brings it back.");
  }

  function copyBoxes() {
    const { photo } = store.doc.queries[store.look.query];
    const boxes = boxesOf(actions.previous()).map(({ box }) => box);
    store.change((doc) => {
      const bare = (query) =>
        query.photo === photo && !query.box && !query.pose?.moved.some(Boolean) && query.state !== "accepted";
      const { queries } = edits.addObjects(doc, photo, boxes);
      return { ...doc, queries: queries.filter((query) => !bare(query)) };
    });
    const first = store.doc.queries.findIndex((query) => query.photo === photo && query.box);
    store.show({ query: first, selected: null });
    actions.say(`${boxes.length} boxes copied`);
    finder.start();
  }

  return {
    element,
    render() {
      update(here());
      const before = actions.previous();
      copy.hidden = !before || !boxesOf(before).length;
    },
  };
}
