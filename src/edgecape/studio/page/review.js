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

  const stage = createStage(host, {
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
        { type: "button", onclick: () => stage.focusPoint(k) },
        dot,
        name,
        h("span", { class: "track" }, bar),
        number,
      );
      return Object.assign(h("li", {}, row), { row, bar, name, number, dot });
    },
    (item, { name, score, moved, faded }, k) => {
      item.dot.firstChild.setAttribute("fill", colour(k));
      item.name.textContent = name;
      item.number.textContent = moved ? "moved" : score.toFixed(2);
      item.bar.style.width = `${100 * (moved ? 1 : score)}%`;
      set(item.row, {
        class: `${store.look.selected === k ? "selected" : ""}${faded ? " faded" : ""}${moved ? " moved" : ""}`,
        "aria-label": `${name}, ${moved ? "moved by you" : `score ${score.toFixed(2)}`}`,
      });
    },
  );
  panel.append(h("h2", {}, "Found"), words, h("div", { class: "column" }, accept, teach), list, again);

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
    const pose = item.state === "waiting" || item.state === "failed" ? null : item.pose;
    const sure = (k) => pose.moved[k] || pose.scores[k] >= doc.settings.scoreThreshold;
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
          : isShot
            ? "This photo is one of your shots."
            : "Drag a keypoint that is wrong. A corrected photo can teach the model.";
    words.classList.toggle("problem", item.state === "failed");
    set(accept, { disabled: !pose, "aria-pressed": String(item.state === "accepted") });
    accept.lastChild.textContent = item.state === "accepted" ? "Accepted" : "Accept";
    set(teach, { disabled: !pose || isShot });
    again.hidden = item.state === "accepted";
    update(
      pose ? doc.names.map((name, k) => ({ name, score: pose.scores[k], moved: pose.moved[k], faded: !sure(k) })) : [],
    );
    stage.show({
      photo,
      points: doc.names.map((name, k) => {
        if (!pose) return null;
        const [x, y] = pose.keypoints[k];
        const note = pose.moved[k] ? ", moved" : `, score ${pose.scores[k].toFixed(2)}`;
        return { x, y, name, note, colour: colour(k), faded: !sure(k) };
      }),
      edges: pose ? doc.skeleton.map(([i, j]) => ({ i, j, kind: "skeleton", faded: !sure(i) || !sure(j) })) : [],
      box: item.box,
      tool: boxing ? "box" : "move",
      selected: look.selected,
      showNames: doc.settings.showNames,
      label: `Photo ${photo.name}. Tab goes to the keypoints, arrow keys move them.`,
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
