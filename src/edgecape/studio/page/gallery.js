// The photos to search, as cards. Of hundreds, those that can be seen exist.

import * as edits from "./edits.js";
import { createCard } from "./card.js";
import { createFindBar } from "./findbar.js";
import { h, set } from "./dom.js";
import { arranged } from "./order.js";

const GAP = 14; // pixels between cards, and around them
const NARROW = 480; // pixels: a screen that holds two small cards side by side
const FOOT = 46; // pixels below the picture
const SPARE = 1; // rows beyond what is seen

/** actions: { choosePhotos(), open(index), mark(), say(text), exported() → time }. */
export function createGallery(store, finder, actions) {
  const host = document.getElementById("cards");
  const sheet = h("div", { class: "cards-sheet", role: "list", "aria-label": "Photos to search" });
  host.append(sheet);
  const none = h("p", { class: "hint none" }, "No photo is like that.");
  host.append(none);
  let threshold = 0; // of scores, below which keypoints fade
  const fade = (value) => ((threshold = value), soon());
  const bar = createFindBar(store, finder, { ...actions, fade });
  const cards = new Map(); // photo → card
  let entries = [];
  let columns = 1;
  let current = null; // the photo whose card is in the tab order
  let anchor = null; // where Shift-click begins
  let drawing = 0;

  const entryOf = (photo) => entries.find((entry) => entry.photo === photo);
  const handlers = {
    open(photo, event) {
      if (event.shiftKey) return accept(photo, event);
      current = photo;
      actions.open(entryOf(photo).indices[0]);
    },
    accept,
    again: (photo) => finder.again(entryOf(photo).queries),
    remove,
  };

  // --- what a person does -------------------------------------------------------------------------------------

  function accept(photo, { shiftKey } = {}) {
    const at = entries.findIndex((entry) => entry.photo === photo);
    const from = shiftKey ? entries.findIndex((entry) => entry.photo === anchor) : -1;
    const some = from < 0 ? [entries[at]] : entries.slice(Math.min(at, from), Math.max(at, from) + 1);
    const accepted = from >= 0 || entries[at].state !== "accepted";
    anchor = current = photo;
    store.change((doc) =>
      edits.acceptQueries(
        doc,
        some.flatMap((entry) => entry.indices),
        accepted,
      ),
    );
    actions.say(accepted ? (some.length > 1 ? `${some.length} photos accepted` : "Accepted") : "No longer accepted");
  }

  function remove(photo) {
    const at = entries.findIndex((entry) => entry.photo === photo);
    const kept = cards.get(photo)?.element.contains(document.activeElement);
    current = (entries[at + 1] ?? entries[at - 1])?.photo ?? null;
    store.change((doc) => edits.removePhoto(doc, photo));
    actions.say("Photo removed. Undo brings it back.");
    if (kept) focus(current);
  }

  host.addEventListener("keydown", (event) => {
    const photo = event.target.closest(".card")?.dataset.photo;
    if (!photo || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = entries.findIndex((entry) => entry.photo === photo);
    const rows = Math.max(1, Math.floor(host.clientHeight / rowHeight()));
    const to = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      ArrowUp: at - columns,
      ArrowDown: at + columns,
      PageUp: at - rows * columns,
      PageDown: at + rows * columns,
      Home: 0,
      End: entries.length - 1,
    }[event.key];
    if (to !== undefined) focus(entries[Math.max(0, Math.min(to, entries.length - 1))].photo);
    else if (event.key === " ") {
      accept(photo, event);
      focus((entries[at + 1] ?? entries[at])?.photo); // in another choice the photo may be gone
    } else if (event.key.toLowerCase() === "a") accept(photo, event);
    else if (event.key === "Delete") remove(photo);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // --- what is seen -------------------------------------------------------------------------------------------

  let width = 0; // of a card
  const rowHeight = () => Math.round(width * 0.75) + FOOT + GAP;

  function measure() {
    const room = host.clientWidth - 2 * GAP;
    const least = host.clientWidth < NARROW ? 140 : 210;
    columns = Math.max(1, Math.floor((room + GAP) / (least + GAP)));
    width = Math.floor((room - (columns - 1) * GAP) / columns);
    sheet.style.height = `${Math.ceil(entries.length / columns) * rowHeight() + GAP}px`;
  }

  /** Make, move and fill the cards that can be seen, and the one that has the focus. */
  function draw() {
    drawing = 0;
    if (!host.clientWidth || host.closest("[hidden]")) return;
    measure();
    const height = rowHeight();
    const first = (Math.floor((host.scrollTop - sheet.offsetTop) / height) - SPARE) * columns;
    const last = (Math.ceil((host.scrollTop - sheet.offsetTop + host.clientHeight) / height) + SPARE) * columns;
    const focused = document.activeElement?.closest(".card")?.dataset.photo;
    if (!entryOf(current)) current = entries[0]?.photo ?? null;
    const seen = new Map();
    entries.forEach((entry, n) => {
      if ((n >= first && n < last) || entry.photo === focused || entry.photo === current) seen.set(entry.photo, n);
    });
    const idle = [];
    for (const [photo, card] of cards) {
      if (seen.has(photo)) continue;
      cards.delete(photo);
      card.element.remove();
      idle.push(card);
    }
    let place = sheet.firstChild;
    for (const [photo, n] of seen) {
      if (!cards.has(photo)) cards.set(photo, idle.pop() ?? createCard(handlers));
      const card = cards.get(photo);
      fill(card, n, height);
      if (card.element === place) place = place.nextSibling;
      else sheet.insertBefore(card.element, place);
    }
  }

  function fill(card, n, height) {
    const entry = entries[n];
    const [x, y] = [GAP + (n % columns) * (width + GAP), GAP + Math.floor(n / columns) * height];
    Object.assign(card.element.style, { width: `${width}px`, transform: `translate(${x}px, ${y}px)` });
    set(card.open, { tabindex: entry.photo === current ? "0" : "-1" });
    card.show(entry, {
      photo: store.photos[entry.photo],
      skeleton: store.doc.skeleton,
      searched: Boolean(finder.progress) && entry.queries.some(finder.searches),
      outdated: entry.queries.some(finder.outdated),
      position: n,
      number: entries.length,
      threshold,
    });
  }

  function focus(photo) {
    const n = entries.findIndex((entry) => entry.photo === photo);
    if (n < 0) return host.focus();
    current = photo;
    const [top, height] = [sheet.offsetTop + Math.floor(n / columns) * rowHeight(), rowHeight()];
    if (top < host.scrollTop) host.scrollTop = top;
    else if (top + height > host.scrollTop + host.clientHeight) host.scrollTop = top + height - host.clientHeight + GAP;
    draw();
    cards.get(photo)?.open.focus({ preventScroll: true });
  }

  function soon() {
    drawing ||= requestAnimationFrame(draw);
  }
  host.addEventListener("scroll", soon, { passive: true });
  new ResizeObserver(soon).observe(host);

  return {
    focus,
    render() {
      const { doc, look } = store;
      const facts = { outdated: finder.outdated, exported: actions.exported(), photos: store.photos };
      entries = arranged(doc.queries, look, facts);
      look.order = entries.map(({ photo }) => photo);
      bar.render(entries);
      host.hidden = !doc.queries.length;
      none.hidden = entries.length > 0 || !doc.queries.length;
      document.getElementById("find-empty").hidden = doc.queries.length > 0;
      draw();
    },
  };
}
