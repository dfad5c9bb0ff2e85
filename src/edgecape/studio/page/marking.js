// The support side: a photo to mark, the tools for it, the next step in words, and the strip of marked photos.

import * as api from "./api.js";
import * as edits from "./edits.js";
import { count, createChoice, h, icon, iconButton, pool, set } from "./dom.js";
import { createKeypointList } from "./keypoints.js";
import { colour } from "./palette.js";
import { createStage, zoomButtons } from "./stage.js";

const TOOLS = [
  { value: "point", label: "Keypoints", about: "Keypoints (P)", icon: "point" },
  { value: "edge", label: "Edges", about: "Edges (E)", icon: "edge" },
  { value: "box", label: "Box", about: "Box (B)", icon: "box" },
];

const BY_KEYBOARD = "Arrow keys move a crosshair, Enter places a keypoint, Tab goes to the keypoints.";

/** actions: { choosePhotos(), find(), say(text), warn(text), graphEdges() → edges or null }. */
export function createMarking(store, actions) {
  const host = document.getElementById("mark-stage");
  const coach = document.getElementById("coach");
  const tools = createTools();
  const namer = createNamer();
  let next = null; // a missing keypoint chosen to be placed first

  const stage = createStage(host, {
    place,
    select: (k) => store.show({ selected: k }),
    move: (k, at, merge) => store.change((doc) => edits.placePoint(doc, store.look.shot, k, at), merge),
    remove,
    connect(i, j) {
      store.change((doc) => edits.addEdge(doc, i, j));
      actions.say(`Edge from ${store.doc.names[i]} to ${store.doc.names[j]}`);
    },
    cut(i, j) {
      store.change((doc) => edits.removeEdge(doc, i, j));
      actions.say(`Edge from ${store.doc.names[i]} to ${store.doc.names[j]} removed`);
    },
    box(box) {
      store.change((doc) => edits.boxShot(doc, store.look.shot, box));
      actions.say("Box drawn");
    },
    viewed: (view) => namer.follow(view),
  });

  function place(at) {
    const { look } = store;
    namer.close();
    const lacking = edits.missing(store.doc, look.shot);
    if (lacking.length) {
      const k = lacking.includes(next) ? next : lacking[0];
      store.change((doc) => edits.placePoint(doc, look.shot, k, at));
      store.show({ selected: k });
      return actions.say(`${store.doc.names[k]} placed at ${at.x.toFixed(0)}, ${at.y.toFixed(0)}`);
    }
    const k = store.doc.names.length;
    const merge = `add ${k} ${performance.now()}`;
    store.change((doc) => edits.addPoint(doc, look.shot, at), merge);
    store.show({ selected: k });
    actions.say(`Keypoint ${k + 1} added. Type its name.`);
    namer.open(k, merge);
  }

  function remove(k) {
    const { doc, look } = store;
    const name = doc.names[k];
    const elsewhere = doc.shots.some((shot, n) => n !== look.shot && shot.points[k]);
    store.change((now) => (elsewhere ? edits.liftPoint(now, look.shot, k) : edits.deletePoint(now, k)));
    store.show({ selected: null });
    actions.say(elsewhere ? `${name} taken off this photo` : `${name} deleted`);
  }

  function rename(k, text, merge = null) {
    const name = text.trim();
    const taken = store.doc.names.some((other, n) => n !== k && other === name);
    if (taken) actions.warn(`There is already a keypoint called “${name}”; each name is used once.`);
    if (name && !taken && name !== store.doc.names[k]) store.change((doc) => edits.renamePoint(doc, k, name), merge);
    return store.doc.names[k];
  }

  /** A small field beside a new keypoint that asks for its name. */
  function createNamer() {
    const input = h("input", {
      class: "namer",
      autocomplete: "off",
      spellcheck: "false",
      maxlength: "100",
      hidden: true,
    });
    let naming = null;
    const close = () => {
      if (!naming) return;
      const { k, merge } = naming;
      naming = null;
      input.hidden = true;
      if (k < store.doc.names.length) rename(k, input.value, merge);
    };
    input.onkeydown = (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      if (event.key === "Escape") input.value = "";
      close();
      stage.focus();
    };
    input.onblur = close;
    input.onpointerdown = (event) => event.stopPropagation();
    host.append(input);
    return {
      close,
      open(k, merge) {
        naming = { k, merge };
        set(input, {
          value: "",
          placeholder: store.doc.names[k],
          "aria-label": `Name of keypoint ${k + 1}`,
          hidden: false,
        });
        this.follow(stage.view);
        input.focus({ preventScroll: true });
      },
      follow(view) {
        const point = naming && store.doc.shots[store.look.shot]?.points[naming.k];
        if (!point) return;
        const at = view.toScreen(point);
        input.style.left = `${Math.min(Math.max(at.x + 16, 4), view.stage.width - 164)}px`;
        input.style.top = `${Math.min(Math.max(at.y - 18, 4), view.stage.height - 40)}px`;
      },
    };
  }

  function createTools() {
    const choice = createChoice("Tool", TOOLS, (tool) => store.show({ tool }));
    const whole = h("button", { type: "button", class: "text" }, "Use the whole photo");
    whole.onclick = () => store.change((doc) => edits.boxShot(doc, store.look.shot, null));
    const names = h(
      "button",
      { type: "button", class: "quiet toggle", title: "Show names (N)" },
      icon("name"),
      h("span", {}, "Names"),
    );
    names.onclick = toggleNames;
    document.getElementById("mark-tools").append(
      choice.element,
      whole,
      h("span", { class: "space" }),
      names,
      zoomButtons(() => stage),
    );
    return () => {
      choice.show(store.look.tool);
      set(names, { "aria-pressed": String(store.doc.settings.showNames) });
      whole.hidden = !(store.look.tool === "box" && store.doc.shots[store.look.shot]?.box);
    };
  }

  function toggleNames() {
    store.absorb((doc) => ({ ...doc, settings: { ...doc.settings, showNames: !doc.settings.showNames } }));
  }

  // --- the next step, in words --------------------------------------------------------------------------------

  function nextStep() {
    const { doc, look } = store;
    const lacking = edits.missing(doc, look.shot);
    const chosen = lacking.includes(next) ? next : lacking[0];
    if (look.tool === "box") return ["Drag a box around the object if there is more on the photo.", null];
    if (look.tool === "edge") {
      if (doc.names.length < 2) return ["Mark two keypoints first; then connect them here.", null];
      return [
        "Drag from one keypoint to another to connect them. Click an edge to remove it.",
        doc.skeleton.length ? "find" : null,
      ];
    }
    if (lacking.length)
      return [
        h(
          "span",
          {},
          "Click where ",
          h("strong", {}, doc.names[chosen]),
          " is. Leave out what this photo does not show.",
        ),
        edits.canFind(doc) ? "find" : null,
      ];
    if (!doc.names.length)
      return ["Click on the first keypoint, a place you can find on every photo of this kind.", null];
    if (doc.names.length < 3) return ["Good. Click on the next one; drag to adjust.", null];
    if (!doc.skeleton.length) return ["Add more keypoints, or connect those that belong together.", "edge"];
    return ["Ready. Adjust as you like, or go on.", "find"];
  }

  const coachText = h("span");
  const coachButton = h("button", { type: "button", class: "primary" });
  coach.append(coachText, coachButton);

  function renderCoach() {
    const [words, offer] = nextStep();
    coachText.replaceChildren(words);
    coachButton.hidden = !offer;
    coachButton.textContent = offer === "edge" ? "Draw edges" : "Find on other photos";
    coachButton.onclick = offer === "edge" ? () => store.show({ tool: "edge" }) : actions.find;
  }

  // --- the strip of photos ------------------------------------------------------------------------------------

  const strip = document.getElementById("shots");
  const thumbs = h("div", { class: "thumbs" });
  const more = h(
    "button",
    { type: "button", class: "more", onclick: actions.choosePhotos },
    icon("plus"),
    h("span", {}, "Another photo"),
  );
  strip.append(thumbs, more);
  const updateThumbs = pool(
    thumbs,
    (n) => {
      const [image, badge] = [h("img", { alt: "", draggable: "false" }), h("span", { class: "badge" })];
      const open = h(
        "button",
        { type: "button", class: "thumb", onclick: () => store.show({ shot: n, selected: null }) },
        image,
        badge,
      );
      const away = iconButton("close", "", () => removeShot(n), { class: "away" });
      return Object.assign(h("div", {}, open, away), { image, badge, open, away });
    },
    (item, shot, n) => {
      const { doc, look, photos } = store;
      const placed = doc.names.length - edits.missing(doc, n).length;
      const name = photos[shot.photo].name;
      set(item.image, { src: api.photoUrl(shot.photo, true) });
      item.badge.textContent = doc.names.length ? `${placed}/${doc.names.length}` : "";
      item.badge.classList.toggle("done", placed === doc.names.length && placed > 0);
      const label = `${name}: ${placed} of ${count(doc.names.length, "keypoint")} placed`;
      set(item.open, { "aria-label": label, title: label, "aria-current": n === look.shot ? "true" : null });
      set(item.away, { "aria-label": `Remove ${name}`, title: `Remove ${name}` });
    },
  );

  function removeShot(n) {
    store.change((doc) => edits.removeShot(doc, n));
    actions.say("Photo removed. Undo brings it back.");
  }

  const list = createKeypointList(store, {
    rename,
    remove(k) {
      store.change((doc) => edits.deletePoint(doc, k));
      actions.say("Keypoint deleted");
    },
    say: actions.say,
    select(k) {
      if (store.doc.shots[store.look.shot]?.points[k]) stage.focusPoint(k);
      else {
        next = k;
        store.show({ tool: "point" });
        actions.say(`Next: ${store.doc.names[k]}`);
      }
    },
  });

  return {
    stage,
    toggleNames,
    render() {
      const { doc, look, photos } = store;
      const shot = doc.shots[look.shot];
      for (const part of [host, coach, strip, document.getElementById("mark-tools")]) part.hidden = !shot;
      document.getElementById("mark-empty").hidden = Boolean(shot);
      document.getElementById("mark").classList.toggle("fresh", !shot && !doc.names.length);
      list();
      if (!shot) return;
      tools();
      renderCoach();
      updateThumbs(doc.shots);
      stage.show({
        photo: photos[shot.photo],
        points: shot.points.map((point, k) => point && { ...point, name: doc.names[k], colour: colour(k) }),
        edges:
          (look.tool !== "edge" && actions.graphEdges()) || doc.skeleton.map(([i, j]) => ({ i, j, kind: "skeleton" })),
        box: shot.box,
        tool: look.tool,
        selected: look.selected,
        showNames: doc.settings.showNames,
        label: `Photo ${photos[shot.photo].name}. ${BY_KEYBOARD}`,
      });
    },
  };
}
