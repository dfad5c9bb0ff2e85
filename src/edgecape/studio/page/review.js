// One found photo, large: see the scores, drag what is wrong, accept it, teach the model with it.

import * as edits from "./edits.js";
import { h, icon, iconButton, pool, s, set } from "./dom.js";
import { colour } from "./palette.js";
import { createStage, zoomButtons } from "./stage.js";

/** actions: { say(text), back() }. */
export function createReview(store, finder, actions) {
  const tools = document.getElementById("review-tools");
  const panel = document.getElementById("review-panel");
  const host = document.getElementById("review-stage");
  const index = () => store.look.query;
  const query = () => store.doc.queries[index()];
  let boxing = false;

  /** The keypoint that a click on the photo puts there: the chosen one, if it was not found. */
  const placing = () => {
    const { selected } = store.look;
    return selected !== null && pose() && !pose().keypoints[selected] ? selected : null;
  };
  const pose = () => (["waiting", "failed"].includes(query().state) ? null : query().pose);

  const stage = createStage(host, {
    place(at) {
      const k = placing();
      store.change((doc) => edits.moveFound(doc, index(), k, at));
      actions.say(`${store.doc.names[k]} placed`);
    },
    select: (k) => store.show({ selected: k }),
    move: (k, at, merge) =>
      store.change((doc) => edits.moveFound(doc, index(), k, at), merge && `query ${index()} ${merge}`),
    box(box) {
      boxing = false;
      store.change((doc) => edits.boxQuery(doc, index(), box));
      finder.start();
    },
  });

  // --- the bar ------------------------------------------------------------------------------------------------

  const title = h("span", { class: "name" });
  const position = h("span", { class: "position" });
  const boxTool = h(
    "button",
    { type: "button", class: "toggle", title: "Draw a box around the object and find again (B)" },
    icon("box"),
    h("span", {}, "Box"),
  );
  boxTool.onclick = () => ((boxing = !boxing), render());
  const whole = h("button", { type: "button", class: "text" }, "Use the whole photo");
  whole.onclick = () => (store.change((doc) => edits.boxQuery(doc, index(), null)), finder.start());
  const previous = iconButton("left", "Previous photo", () => step(-1));
  const next = iconButton("right", "Next photo", () => step(1));
  const back = h(
    "button",
    { type: "button", onclick: actions.back, title: "Back to all photos (Esc)" },
    icon("left"),
    "All photos",
  );
  tools.append(
    back,
    title,
    h("span", { class: "space" }),
    boxTool,
    whole,
    zoomButtons(() => stage),
    previous,
    position,
    next,
  );

  function step(by) {
    const to = index() + by;
    if (to < 0 || to >= store.doc.queries.length) return;
    boxing = false;
    store.show({ query: to, selected: null });
    actions.say(`${store.photos[query().photo].name}, photo ${to + 1} of ${store.doc.queries.length}`);
  }

  // --- the panel ----------------------------------------------------------------------------------------------

  const words = h("p", { class: "hint" });
  const accept = h(
    "button",
    { type: "button", class: "primary", title: "Accept (A)", onclick: toggleAccepted },
    icon("tick"),
    h("span", {}, "Accept"),
  );
  const teach = h(
    "button",
    { type: "button", title: "Use as another shot (S)", onclick: useAsShot },
    icon("plus"),
    "Use as another shot",
  );
  const again = h(
    "button",
    { type: "button", class: "text", onclick: () => finder.again([query()]) },
    icon("again"),
    "Find again",
  );
  const list = h("ol", { class: "scores" });
  const update = pool(
    list,
    (k) => {
      const bar = h("span", { class: "bar" });
      const [name, number] = [h("span", { class: "name" }), h("span", { class: "value" })];
      const dot = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("circle", { cx: 8, cy: 8, r: 5.5 }));
      const row = h(
        "button",
        { type: "button", onclick: () => choose(k) },
        dot,
        name,
        h("span", { class: "track" }, bar),
        number,
      );
      return Object.assign(h("li", {}, row), { row, bar, name, number, dot });
    },
    (item, { name, place, score, moved, faded }, k) => {
      set(item.dot.firstChild, { fill: place ? colour(k) : "none", stroke: place ? null : colour(k) });
      item.name.textContent = name;
      item.number.textContent = !place ? "not found" : moved ? "moved" : score.toFixed(2);
      item.bar.style.width = `${100 * (!place ? 0 : moved ? 1 : score)}%`;
      const told = !place ? "not found, choose to place it" : moved ? "moved by you" : `score ${score.toFixed(2)}`;
      set(item.row, {
        class: [store.look.selected === k && "selected", faded && "faded", moved && "moved", !place && "missing"]
          .filter(Boolean)
          .join(" "),
        "aria-label": `${name}, ${told}`,
        title: place ? null : "Not found. Choose it, then click where it is.",
      });
    },
  );
  panel.append(h("h2", {}, "Found"), words, h("div", { class: "column" }, accept, teach), list, again);

  function choose(k) {
    if (pose().keypoints[k]) return stage.focusPoint(k);
    store.show({ selected: k });
    stage.focus();
    actions.say(`Click where ${store.doc.names[k]} is`);
  }

  function toggleAccepted() {
    const accepted = query().state !== "accepted";
    store.change((doc) => edits.acceptQuery(doc, index(), accepted));
    actions.say(accepted ? "Accepted" : "No longer accepted");
  }

  function useAsShot() {
    const photo = store.photos[query().photo];
    const others = store.doc.queries.filter((item) => item.state !== "accepted").length;
    store.change((doc) => edits.useAsShot(doc, index(), photo));
    actions.say(`${photo.name} is now a shot.${others ? " Finding the others again." : ""}`);
    finder.again();
  }

  function render() {
    const { doc, look, photos } = store;
    const item = query();
    if (!item) return;
    const photo = photos[item.photo];
    const shown = pose();
    const sure = (k) => shown.moved[k] || shown.scores[k] >= doc.settings.scoreThreshold;
    const missing = shown ? doc.names.filter((_, k) => !shown.keypoints[k]) : [];
    title.textContent = title.title = photo.name;
    position.textContent = `${look.query + 1} of ${doc.queries.length}`;
    set(previous, { disabled: look.query === 0 });
    set(next, { disabled: look.query === doc.queries.length - 1 });
    set(boxTool, { "aria-pressed": String(boxing) });
    whole.hidden = !item.box;
    const isShot = doc.shots.some((shot) => shot.photo === item.photo);
    words.textContent = boxing
      ? "Drag a box around the object."
      : item.state === "failed"
        ? item.error
        : item.state === "waiting"
          ? "Waiting to be searched."
          : placing() !== null
            ? `Click where ${doc.names[placing()]} is.`
            : missing.length
              ? `Not found: ${missing.join(", ")}. Choose one below to place it.`
              : isShot
                ? "This photo is one of your shots."
                : "Drag a keypoint that is wrong. A corrected photo can teach the model.";
    words.classList.toggle("problem", item.state === "failed");
    set(accept, { disabled: !shown, "aria-pressed": String(item.state === "accepted") });
    accept.lastChild.textContent = item.state === "accepted" ? "Accepted" : "Accept";
    set(teach, { disabled: !shown || isShot });
    again.hidden = item.state === "accepted";
    const row = (name, k) => {
      const [place, score, moved] = [shown.keypoints[k], shown.scores[k], shown.moved[k]];
      return { name, place, score, moved, faded: !place || !sure(k) };
    };
    update(shown ? doc.names.map(row) : []);
    stage.show({
      photo,
      points: doc.names.map((name, k) => {
        if (!shown?.keypoints[k]) return null;
        const [x, y] = shown.keypoints[k];
        const note = shown.moved[k] ? ", moved" : `, score ${shown.scores[k].toFixed(2)}`;
        return { x, y, name, note, colour: colour(k), faded: !sure(k) };
      }),
      edges: shown ? doc.skeleton.map(([i, j]) => ({ i, j, kind: "skeleton", faded: !sure(i) || !sure(j) })) : [],
      box: item.box,
      tool: boxing ? "box" : placing() !== null ? "point" : "move",
      selected: look.selected,
      showNames: doc.settings.showNames,
      label: `Photo ${photo.name}. ${
        placing() !== null
          ? `Arrow keys move a crosshair, Enter places ${doc.names[placing()]}.`
          : "Tab goes to the keypoints, arrow keys move them."
      }`,
    });
  }

  return {
    render,
    stage,
    step,
    toggleAccepted,
    useAsShot,
    toggleBox: () => boxTool.click(),
    ready: () => !accept.disabled,
  };
}
