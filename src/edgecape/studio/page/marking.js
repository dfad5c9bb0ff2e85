// The support side: a photo to mark, the tools for it, the next step in words, and the strip of marked photos.

import * as edits from "./edits.js";
import { createChoice, h, icon, set } from "./dom.js";
import { createKeypointList } from "./keypoints.js";
import { createNamer } from "./namer.js";
import { colour } from "./palette.js";
import { createStrip } from "./shots.js";
import { createStage, zoomButtons } from "./stage.js";

const TOOLS = [
  { value: "point", label: "Keypoints", about: "Keypoints (P)", icon: "point" },
  { value: "edge", label: "Edges", about: "Edges (E)", icon: "edge" },
  { value: "box", label: "Box", about: "Box (B)", icon: "box" },
];

const BY_KEYBOARD = "Arrow keys move a crosshair, Enter places a keypoint, digits or Tab pick one.";

/** actions: { choosePhotos(), find(), say(text), warn(text), disagrees(photo), graphEdges() → edges or null }. */
export function createMarking(store, actions) {
  const host = document.getElementById("mark-stage");
  const coach = document.getElementById("coach");
  const tools = createTools();
  let namer = null;
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
    viewed: (view) => namer?.follow(view),
  });
  namer = createNamer(host, store, rename, stage.focus); // after the photo, which would lie over it

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
    namer.open(k, merge, stage.view);
    store.show({ selected: k });
    actions.say(`Keypoint ${k + 1} added. Type its name.`);
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

  function createTools() {
    const choice = createChoice("Tool", TOOLS, (tool) => store.show({ tool }));
    const whole = h("button", { type: "button", class: "text" }, "Use the whole photo");
    whole.onclick = () => store.change((doc) => edits.boxShot(doc, store.look.shot, null));
    const names = h(
      "button",
      { type: "button", class: "toggle", title: "Show names (L)", onclick: toggleNames },
      icon("name"),
      h("span", {}, "Names"),
    );
    const template = h(
      "button",
      { type: "button", popovertarget: "template-menu", title: "Begin with the keypoints of a known kind" },
      icon("template"),
      h("span", {}, "Template"),
    );
    const drawers = [
      ["keypoints", "keypoints", "Keypoints"],
      ["graph", "edge", "Graph"],
    ].map(([drawer, picture, text]) => {
      const open = () => store.show({ drawer: store.look.drawer === drawer ? null : drawer });
      const button = h("button", { type: "button", class: "toggle opens-drawer", title: text, onclick: open });
      button.append(icon(picture), h("span", {}, text));
      return Object.assign(button, { drawer });
    });
    document.getElementById("mark-tools").append(
      choice.element,
      whole,
      template,
      h("span", { class: "space" }),
      names,
      zoomButtons(() => stage),
      ...drawers,
    );
    return () => {
      choice.show(store.look.tool);
      set(names, { "aria-pressed": String(store.doc.settings.showNames) });
      whole.hidden = !(store.look.tool === "box" && store.doc.shots[store.look.shot]?.box);
      template.hidden = store.doc.names.length > 0;
      for (const button of drawers) set(button, { "aria-expanded": String(store.look.drawer === button.drawer) });
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
    coachButton.replaceChildren(
      ...(offer === "edge" ? ["Draw edges"] : ["Find", h("span", { class: "wide" }, " on other photos")]),
    );
    coachButton.onclick = offer === "edge" ? () => store.show({ tool: "edge" }) : actions.find;
  }

  const strip = createStrip(store, actions);
  const list = createKeypointList(store, {
    rename,
    remove(k) {
      store.change((doc) => edits.deletePoint(doc, k));
      actions.say("Keypoint deleted");
    },
    hide,
    say: actions.say,
    select: choose,
  });

  /** Pick a keypoint: to be moved if it is on the photo, else to be placed next. */
  function choose(k) {
    if (k >= store.doc.names.length) return;
    if (store.doc.shots[store.look.shot]?.points[k]) return stage.focusPoint(k);
    next = k;
    store.show({ tool: "point", drawer: null });
    actions.say(`Next: ${store.doc.names[k]}`);
  }

  function hide(k = store.look.selected) {
    const point = store.doc.shots[store.look.shot]?.points[k];
    if (!point) return;
    store.change((doc) => edits.hidePoint(doc, store.look.shot, k, !point.hidden));
    actions.say(`${store.doc.names[k]} is ${point.hidden ? "visible" : "hidden"} on this photo`);
  }

  return {
    stage,
    toggleNames,
    choose,
    hide,
    render() {
      const { doc, look, photos } = store;
      const shot = doc.shots[look.shot];
      for (const part of [host, coach, strip.element, document.getElementById("mark-tools")]) part.hidden = !shot;
      document.getElementById("mark-empty").hidden = Boolean(shot);
      document.getElementById("mark").classList.toggle("fresh", !shot && !doc.names.length);
      list();
      if (!shot) return;
      tools();
      renderCoach();
      strip.render();
      stage.show({
        photo: photos[shot.photo],
        points: shot.points.map((point, k) => point && { ...point, name: doc.names[k], colour: colour(k) }),
        edges:
          (look.tool !== "edge" && actions.graphEdges()) || doc.skeleton.map(([i, j]) => ({ i, j, kind: "skeleton" })),
        box: shot.box,
        tool: look.tool,
        selected: look.selected,
        showNames: doc.settings.showNames,
        naming: namer.keypoint,
        label: `Photo ${photos[shot.photo].name}. ${BY_KEYBOARD}`,
      });
    },
  };
}
