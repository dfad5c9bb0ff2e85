// One found photo, large: see the scores, drag what is wrong, accept it, teach the model with it.

import * as api from "./api.js";
import * as edits from "./edits.js";
import { compare } from "./changes.js";
import { h, icon, iconButton, set } from "./dom.js";
import { createObjects } from "./objects.js";
import { nextToCorrect } from "./order.js";
import { colour } from "./palette.js";
import { drawPoses } from "./pose.js";
import { createScores } from "./scores.js";
import { createStage, zoomButtons } from "./stage.js";
import { createTimeline } from "./timeline.js";

const BEFORE = 1000; // pixels of the longer side of the pose beside the photo
const LOOKED = {
  fast: "Found at a first look (effort: fast).",
  best: "Found by looking in every way (effort: best).",
};

/** actions: { say(text), back(), taught(photo) }. */
export function createReview(store, finder, actions) {
  const host = document.getElementById("review-stage");
  const index = () => store.look.query;
  const query = () => store.doc.queries[index()];
  let drawing = null; // "box": of this object, "object": of another one

  /** The keypoint that a click on the photo puts there: the chosen one, if it was not found. */
  const placing = () => {
    const { selected } = store.look;
    return selected !== null && query().pose && !query().pose.keypoints[selected] ? selected : null;
  };

  const stage = createStage(host, {
    place(at) {
      const k = placing();
      store.change((doc) => edits.moveFound(doc, index(), k, at));
      actions.say(`${store.doc.names[k]} placed`);
    },
    select: (k) => store.show({ selected: k }),
    move: (k, at, merge) =>
      store.change((doc) => edits.moveFound(doc, index(), k, at), merge && `query ${index()} ${merge}`),
    remove: hide,
    other: (n) => open(n),
    box(box) {
      const added = drawing === "object";
      drawing = null;
      if (added) {
        const { photo } = query();
        store.change((doc) => edits.addObjects(doc, photo, [box]));
        open(store.doc.queries.findIndex((item) => edits.sameQuery(item, { photo, box })));
      } else store.change((doc) => edits.boxQuery(doc, index(), box));
      finder.start();
    },
  });

  // --- from photo to photo ------------------------------------------------------------------------------------

  /** Ids of the photos as the gallery showed them, the open one included. */
  function order() {
    const all = new Set(store.doc.queries.map(({ photo }) => photo));
    const shown = store.look.order.filter((photo) => all.has(photo));
    return shown.includes(query().photo) ? shown : [...all];
  }
  const neighbour = (by) => {
    const photos = order();
    return photos[photos.indexOf(query().photo) + by] ?? null;
  };
  const firstOf = (photo) => store.doc.queries.findIndex((item) => item.photo === photo);

  function open(n) {
    if (n === null || n < 0 || n === index()) return;
    drawing = null;
    store.show({ query: n, selected: null });
    const photos = order();
    const { photo } = query();
    actions.say(`${store.photos[photo].name}, photo ${photos.indexOf(photo) + 1} of ${photos.length}`);
  }
  const step = (by) => open(neighbour(by) && firstOf(neighbour(by)));

  function correctNext() {
    const next = nextToCorrect(store.doc.queries, index() === null ? null : query().photo);
    if (!next) return actions.say("Nothing is left to correct.");
    const open = next.indices.find((n) => store.doc.queries[n].state !== "accepted") ?? next.indices[0];
    store.show({ tab: "find", query: open, selected: null });
    actions.say(`${store.photos[next.photo].name}, score ${next.score.toFixed(2)}`);
    stage.focus();
  }

  function acceptAndNext() {
    const { photo } = query();
    const after = neighbour(1);
    if (query().pose) store.change((doc) => edits.acceptQueries(doc, [index()], true));
    const other = store.doc.queries.findIndex((item) => item.photo === photo && item.state !== "accepted" && item.pose);
    if (other >= 0) return open(other);
    if (after) open(firstOf(after));
    else actions.say("Accepted. That was the last photo.");
    stage.focus();
  }

  // --- the bar above ------------------------------------------------------------------------------------------

  const tool = (name, text, title, onclick) =>
    h("button", { type: "button", class: "toggle", title, onclick }, icon(name), h("span", {}, text));
  const title = h("span", { class: "name" });
  const position = h("span", { class: "position" });
  const boxTool = tool("box", "Box", "Draw a box around the object and find again (B)", () => draw("box"));
  const whole = h("button", { type: "button", class: "text" }, "Use the whole photo");
  whole.onclick = () => (store.change((doc) => edits.boxQuery(doc, index(), null)), finder.start());
  const pair = tool("compare", "Compare", "The pose before the last search beside it (C)", toggleCompare);
  const drawer = tool("keypoints", "Keypoints", "Keypoints and objects", () =>
    store.show({ drawer: store.look.drawer === "found" ? null : "found" }),
  );
  drawer.classList.add("opens-drawer");
  const back = h(
    "button",
    { type: "button", onclick: actions.back, title: "Back to all photos (Esc)", "aria-label": "All photos" },
    icon("left"),
    h("span", {}, "All photos"),
  );
  document.getElementById("review-tools").append(
    back,
    title,
    h("span", { class: "space" }),
    whole,
    boxTool,
    pair,
    zoomButtons(() => stage),
    drawer,
  );

  function draw(what) {
    drawing = drawing === what ? null : what;
    render();
    if (drawing) stage.focus();
  }

  /** Stop drawing a box; false if none is drawn. */
  function cancel() {
    if (!drawing) return false;
    drawing = null;
    render();
    return true;
  }

  function toggleCompare() {
    store.show({ compare: !store.look.compare });
  }

  // --- the bar below ------------------------------------------------------------------------------------------

  const previous = iconButton("left", "Previous photo", () => step(-1), { title: "Previous photo (←)" });
  const next = iconButton("right", "Next photo", () => step(1), { title: "Next photo (→)" });
  const accept = h(
    "button",
    { type: "button", class: "primary", title: "Accept (A); Space accepts and goes on", onclick: toggleAccepted },
    icon("tick"),
    h("span", {}, "Accept"),
  );
  const teach = h(
    "button",
    { type: "button", title: "Use as another shot (S)", onclick: useAsShot },
    icon("plus"),
    h("span", {}, "Use as ", h("span", { class: "wide" }, "another "), "shot"),
  );
  const timeline = createTimeline(store, open);
  document
    .getElementById("review-actions")
    .append(
      timeline.element,
      h("div", { class: "row" }, previous, position, next, h("span", { class: "space" }), teach, accept),
    );

  // --- the panel ----------------------------------------------------------------------------------------------

  const words = h("p", { class: "hint", role: "status" });
  const looked = h("p", { class: "hint" });
  const again = h(
    "button",
    { type: "button", class: "text", onclick: findAgain, title: "What you moved stays" },
    icon("again"),
    h("span"),
  );
  const forget = h("button", { type: "button", class: "text" }, "Forget my corrections");
  forget.onclick = () => {
    store.change((doc) => edits.forgetCorrections(doc, index()));
    finder.again([query()], store.serial);
  };
  const scores = createScores(store, choose);
  const objects = createObjects(store, finder, {
    open,
    draw: () => draw("object"),
    previous: () => neighbour(-1),
    say: actions.say,
  });
  document
    .getElementById("review-panel")
    .append(
      h("h2", {}, "Keypoints"),
      words,
      scores.element,
      looked,
      h("div", { class: "row" }, again, forget),
      objects.element,
    );

  /** With the same marks, only a closer look can find something else. */
  const closer = ({ pose, foundWith }) => Boolean(pose && foundWith && foundWith === finder.prompt?.id);
  const useful = (item) => !closer(item) || item.pose.effort === "fast";

  function findAgain() {
    finder.again([query()], store.step(), closer(query()) ? "best" : null);
  }

  /** Pick a keypoint: to be moved if it is on the photo, else to be placed. */
  function choose(k) {
    if (!query().pose || k >= store.doc.names.length) return;
    if (query().pose.keypoints[k]) return stage.focusPoint(k);
    store.show({ selected: k, drawer: null });
    stage.focus();
    actions.say(`Click where ${store.doc.names[k]} is`);
  }

  function hide(k = store.look.selected) {
    if (k === null || !query().pose?.keypoints[k]) return;
    store.change((doc) => edits.hideFound(doc, index(), k));
    actions.say(`${store.doc.names[k]} is not on this photo`);
    stage.focus();
  }

  function toggleAccepted() {
    const accepted = query().state !== "accepted";
    store.change((doc) => edits.acceptQueries(doc, [index()], accepted));
    actions.say(accepted ? "Accepted" : "No longer accepted");
  }

  function useAsShot() {
    const photo = store.photos[query().photo];
    const others = store.doc.queries.filter((item) => item.state !== "accepted" && item !== query());
    store.change((doc) => edits.useAsShot(doc, index(), photo));
    actions.say(`${photo.name} is now a shot.${others.length ? " Finding the others again." : ""}`);
    finder.again(others, store.serial).then(() => actions.taught(photo));
  }

  function told(item) {
    const { doc } = store;
    const lacks = (k) => item.pose && !item.pose.keypoints[k] && !item.pose.moved[k];
    const nowhere = doc.shots.length ? edits.unplaced(doc).filter(lacks) : [];
    const missing = [...doc.names.keys()].filter((k) => lacks(k) && !nowhere.includes(k));
    const listed = (numbers) => numbers.map((k) => doc.names[k]).join(", ");
    const fell = item.earlier && item.pose ? compare(item.earlier, item.pose).collapsed : [];
    if (drawing) return `Drag a box around ${drawing === "object" ? "another" : "the"} object.`;
    if (item.state === "failed") return item.error;
    if (item.state === "waiting" || (finder.progress && finder.searches(item)))
      return item.pose ? "Waiting to be searched again; the pose stays until then." : "Waiting to be searched.";
    if (placing() !== null) return `Click where ${doc.names[placing()]} is.`;
    if (missing.length) return `Not found: ${listed(missing)}. Choose one below to place it.`;
    if (nowhere.length) return `Not looked for, because no shot shows it: ${listed(nowhere)}. Choose one to place it.`;
    if (fell.length)
      return `Since the last search at one place: ${fell.map(([i, j]) => `${doc.names[i]} and ${doc.names[j]}`).join(", ")}.`;
    if (doc.shots.some((shot) => shot.photo === item.photo)) return "This photo is one of your shots.";
    return "Drag a keypoint that is wrong. A corrected photo can teach the model.";
  }

  // --- before and after ---------------------------------------------------------------------------------------

  const picture = h("img", { alt: "", draggable: "false" });
  const poses = h("canvas", { class: "pose", "aria-hidden": "true" });
  const before = document.getElementById("review-before");
  before.append(h("div", { class: "still" }, picture, poses), h("figcaption", {}, "Before"));

  function render() {
    const { doc, look, photos } = store;
    const item = query();
    if (!item) return;
    const photo = photos[item.photo];
    const { pose, earlier } = item;
    const photosShown = order();
    const comparing = look.compare && Boolean(earlier && pose);
    title.textContent = title.title = photo.name;
    position.textContent = `${photosShown.indexOf(item.photo) + 1} of ${photosShown.length}`;
    set(previous, { disabled: neighbour(-1) === null });
    set(next, { disabled: neighbour(1) === null });
    set(boxTool, { "aria-pressed": String(drawing === "box") });
    set(pair, { "aria-pressed": String(comparing), hidden: !earlier || !pose });
    set(drawer, { "aria-expanded": String(look.drawer === "found") });
    whole.hidden = !item.box || doc.queries.some((other) => other.photo === item.photo && !other.box);
    words.textContent = told(item);
    words.classList.toggle("problem", item.state === "failed");
    set(accept, { disabled: !pose, "aria-pressed": String(item.state === "accepted") });
    accept.lastChild.textContent = item.state === "accepted" ? "Accepted" : "Accept";
    set(teach, { disabled: !pose || doc.shots.some((shot) => shot.photo === item.photo) });
    const searchable = item.state !== "accepted" && edits.canFind(doc);
    again.hidden = !searchable || !useful(item);
    again.lastChild.textContent = closer(item) ? "Look harder" : "Find again";
    looked.textContent = LOOKED[pose?.effort] ?? "";
    looked.hidden = !looked.textContent;
    forget.hidden = !searchable || !pose?.moved.some(Boolean);
    scores.render(item);
    objects.render();
    timeline.render();
    before.hidden = !comparing;
    before.parentElement.classList.toggle("comparing", comparing);
    if (comparing) {
      set(picture, { src: api.photoUrl(photo.id) });
      drawPoses(poses, photo, [earlier], doc.skeleton, doc.settings.scoreThreshold, BEFORE);
    }
    showStage(item, photo, comparing);
  }

  function showStage({ pose, earlier, box }, photo, comparing) {
    const { doc, look } = store;
    const certain = (k) => (pose.moved[k] ? 1 : pose.scores[k]);
    const edges = (scoreOf) =>
      doc.skeleton.map(([i, j]) => ({ i, j, kind: "skeleton", score: Math.min(scoreOf(i), scoreOf(j)) }));
    const others = [...doc.queries.entries()]
      .filter(([n, other]) => n !== index() && other.photo === photo.id)
      .map(([n, other]) => ({ n, box: other.box, keypoints: other.pose?.keypoints ?? [], skeleton: doc.skeleton }));
    stage.show({
      photo,
      points: doc.names.map((name, k) => {
        if (!pose?.keypoints[k]) return null;
        const [x, y] = pose.keypoints[k];
        const note = pose.moved[k] ? ", moved" : `, score ${pose.scores[k].toFixed(2)}`;
        return { x, y, name, note, colour: colour(k), score: certain(k) };
      }),
      edges: pose ? edges(certain) : [],
      ghosts: comparing ? earlier.keypoints : [],
      others,
      box,
      tool: drawing ? "box" : placing() !== null ? "point" : "move",
      selected: look.selected,
      showNames: doc.settings.showNames,
      label: `Photo ${photo.name}. ${
        placing() !== null
          ? `Arrow keys move a crosshair, Enter places ${doc.names[placing()]}.`
          : "Digits or Tab pick a keypoint, then arrow keys move it; without one they go from photo to photo."
      }`,
    });
  }

  return {
    render,
    stage,
    step,
    choose,
    hide,
    correctNext,
    acceptAndNext,
    toggleAccepted,
    toggleCompare,
    useAsShot,
    draw,
    cancel,
    ready: () => Boolean(query()?.pose),
  };
}
