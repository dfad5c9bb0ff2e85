// The strip of marked photos below the photo: which is shown, how many keypoints each has, whether they agree.

import * as api from "./api.js";
import * as edits from "./edits.js";
import { count, h, icon, iconButton, pool, roving, set } from "./dom.js";

/** actions: { choosePhotos(), say(text), disagrees(photo) → sentence or null }. */
export function createStrip(store, actions) {
  const element = document.getElementById("shots");
  const thumbs = h("div", { class: "thumbs" });
  const more = h(
    "button",
    { type: "button", class: "more", onclick: actions.choosePhotos, title: "Mark another photo" },
    icon("plus"),
    h("span", {}, "Another photo"),
  );
  element.append(thumbs, more);
  roving(thumbs, () => [...thumbs.children].map(({ open }) => open), { across: true });

  const update = pool(
    thumbs,
    (n) => {
      const [image, badge] = [h("img", { alt: "", draggable: "false" }), h("span", { class: "badge" })];
      const show = () => store.show({ shot: n, selected: null });
      const open = h("button", { type: "button", class: "thumb", onclick: show, onfocus: show }, image, badge);
      const away = iconButton("close", "", () => remove(n), { class: "away", tabindex: "-1" });
      open.onkeydown = (event) => {
        if (event.key === "Delete") remove(n);
      };
      return Object.assign(h("div", {}, open, away), { image, badge, open, away });
    },
    (item, shot, n) => {
      const { doc, look, photos } = store;
      const placed = doc.names.length - edits.missing(doc, n).length;
      const { name } = photos[shot.photo];
      const trouble = actions.disagrees(shot.photo);
      set(item.image, { src: api.photoUrl(shot.photo, true) });
      item.badge.textContent = trouble ? "!" : doc.names.length ? `${placed}/${doc.names.length}` : "";
      item.badge.classList.toggle("done", !trouble && placed === doc.names.length && placed > 0);
      item.badge.classList.toggle("warns", Boolean(trouble));
      const label = `${name}: ${placed} of ${count(doc.names.length, "keypoint")} placed${trouble ? `. ${trouble}` : ""}`;
      const current = n === look.shot;
      set(item.open, {
        "aria-label": label,
        title: label,
        "aria-current": current ? "true" : null,
        tabindex: current ? "0" : "-1",
      });
      set(item.away, { "aria-label": `Remove ${name}`, title: `Remove ${name}` });
    },
  );

  function remove(n) {
    store.change((doc) => edits.removeShot(doc, n));
    actions.say("Photo removed. Undo brings it back.");
  }

  return { element, render: () => update(store.doc.shots) };
}
