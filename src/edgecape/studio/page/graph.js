// The graph: what the model was given beside what it made of it, as drawings or as a matrix, and on the photo.

import { compareGraphs, KINDS } from "./compare.js";
import { createChoice, h, icon, pool, s, set } from "./dom.js";
import { createMatrix } from "./matrix.js";
import { colour } from "./palette.js";

const PRIORS = [
  { value: "mine", label: "Mine", about: "Start from the edges you drew" },
  { value: "none", label: "None", about: "Start from no edges at all" },
  { value: "full", label: "All", about: "Start from every keypoint connected to every other" },
];
const VIEWS = [
  { value: "drawing", label: "Drawing" },
  { value: "matrix", label: "Matrix" },
];
/** A place for each keypoint between 0 and 1: as on the shot, else as on one that has them all, else on a circle. */
function layout(doc, shot) {
  const placed = [doc.shots[shot], ...doc.shots].find((item) => item?.points.every(Boolean))?.points;
  if (!placed) {
    const angle = (k) => (2 * Math.PI * k) / doc.names.length - Math.PI / 2;
    return doc.names.map((_, k) => ({ x: 0.5 + 0.5 * Math.cos(angle(k)), y: 0.5 + 0.5 * Math.sin(angle(k)) }));
  }
  const [xs, ys] = [placed.map(({ x }) => x), placed.map(({ y }) => y)];
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const [width, height] = [Math.max(...xs) - left, Math.max(...ys) - top];
  const size = Math.max(width, height, 1);
  return placed.map(({ x, y }) => ({ x: 0.5 + (x - left - width / 2) / size, y: 0.5 + (y - top - height / 2) / size }));
}

/** actions: { savePrompt() }; finder gives the prompt. */
export function createGraphPanel(store, finder, actions) {
  const panel = document.getElementById("graph");
  const settings = (change) => store.absorb((doc) => ({ ...doc, settings: { ...doc.settings, ...change } }));

  const priors = createChoice("Skeleton the model starts from", PRIORS, (prior) =>
    store.change((doc) => ({ ...doc, prior })),
  );
  const views = createChoice("Show the graph as", VIEWS, (graph) => store.show({ graph }));

  const [given, predicted] = [createDrawing("given"), createDrawing("predicted")];
  const drawings = h("div", { class: "drawings" }, figure(given, "Given"), figure(predicted, "Predicted"));
  const matrix = createMatrix();
  const legend = h(
    "ul",
    { class: "legend" },
    Object.entries(KINDS).map(([kind, text]) => h("li", { class: kind }, sample(kind), text)),
  );
  const threshold = h("input", { type: "range", min: "0", max: "1", step: "0.01", id: "graph-threshold" });
  const shown = h("output", { for: "graph-threshold" });
  threshold.oninput = () => settings({ graphThreshold: Number(threshold.value) });
  const overlay = h(
    "button",
    { type: "button", class: "toggle", title: "Draw the predicted graph on the photo (G)", onclick: toggleOverlay },
    icon("photo"),
    "Show on the photo",
  );
  const keep = h(
    "button",
    { type: "button", class: "text", onclick: actions.savePrompt },
    icon("save"),
    "Save as prompt",
  );
  const state = h("p", { class: "hint", role: "status" });
  const body = h(
    "div",
    { class: "graph-body" },
    views.element,
    drawings,
    matrix.element,
    legend,
    h("div", { class: "field" }, h("label", { for: "graph-threshold" }, "Hide edges below"), shown, threshold),
    h("div", { class: "row" }, overlay, keep),
  );
  panel.append(
    h("h2", {}, "Graph"),
    h("div", { class: "field" }, h("span", { class: "label" }, "Start from"), priors.element),
    state,
    body,
  );

  function figure(drawing, caption) {
    return h("figure", {}, drawing.element, h("figcaption", {}, caption));
  }

  function sample(kind) {
    return s(
      "svg",
      { viewBox: "0 0 28 8", "aria-hidden": "true" },
      s("line", { x1: 2, y1: 4, x2: 26, y2: 4, class: kind }),
    );
  }

  function toggleOverlay() {
    store.show({ overlay: !store.look.overlay });
  }

  function words() {
    if (finder.problem) return finder.problem.message;
    if (!store.doc.names.length) return "Here you will see how the model connects your keypoints.";
    if (finder.thinking)
      return finder.loading ? "Loading the model; this takes a moment the first time…" : "Looking at your marks…";
    if (!finder.prompt) return "Place a keypoint on a photo to see the graph.";
    return "";
  }

  function fits() {
    return finder.prompt?.weights?.length === store.doc.names.length && store.doc.names.length > 0;
  }

  return {
    toggleOverlay,
    /** Edges to draw on the photo instead of the skeleton, or null. */
    overlayEdges() {
      if (!store.look.overlay || !fits()) return null;
      return compareGraphs(finder.prompt.weights, store.doc.skeleton, store.doc.settings.graphThreshold);
    },
    render() {
      const { doc, look } = store;
      const text = words();
      set(state, { textContent: text, hidden: !text, class: `hint${finder.problem ? " problem" : ""}` });
      priors.show(doc.prior);
      body.hidden = !fits();
      panel.classList.toggle("thinking", finder.thinking);
      if (!fits()) return;
      const { weights, prior } = finder.prompt;
      const edges = compareGraphs(weights, doc.skeleton, doc.settings.graphThreshold);
      views.show(look.graph);
      drawings.hidden = look.graph !== "drawing";
      matrix.element.hidden = look.graph !== "matrix";
      set(threshold, { value: String(doc.settings.graphThreshold) });
      shown.textContent = doc.settings.graphThreshold.toFixed(2);
      set(overlay, { "aria-pressed": String(look.overlay) });
      if (look.graph === "matrix") return matrix.render(doc, weights, edges);
      const places = layout(doc, look.shot);
      given.render(
        doc.names,
        places,
        compareGraphs(prior, [], 0.5).map((edge) => ({ ...edge, weight: 0.4, kind: "kept" })),
      );
      predicted.render(doc.names, places, edges);
    },
  };
}

/** A small drawing of a graph: lines by weight, dots in the keypoints' colours. */
function createDrawing(name) {
  const SIZE = 160;
  const MARGIN = 18;
  const [lines, dots, title] = [s("g"), s("g"), s("title")];
  const element = s(
    "svg",
    { viewBox: `0 0 ${SIZE} ${SIZE}`, class: "graph-drawing", role: "img", "data-graph": name },
    title,
    lines,
    dots,
  );
  const at = ({ x, y }) => ({ x: MARGIN + x * (SIZE - 2 * MARGIN), y: MARGIN + y * (SIZE - 2 * MARGIN) });
  let places = [];
  const drawLines = pool(
    lines,
    () => s("line"),
    (line, { i, j, weight, kind }) => {
      const [a, b] = [at(places[i]), at(places[j])];
      const width = kind === "weakened" ? 1.5 : 0.75 + 4 * weight;
      const opacity = kind === "weakened" ? 1 : 0.3 + 0.7 * weight;
      set(line, {
        class: kind,
        x1: a.x,
        y1: a.y,
        x2: b.x,
        y2: b.y,
        "stroke-width": width,
        "stroke-opacity": opacity,
        "data-edge": `${i}-${j}`,
      });
    },
  );
  const drawDots = pool(
    dots,
    (k) => s("circle", { r: 5.5, fill: colour(k) }, s("title")),
    (dot, text, k) => {
      const { x, y } = at(places[k]);
      set(dot, { cx: x, cy: y });
      dot.firstChild.textContent = text;
    },
  );
  return {
    element,
    render(names, itsPlaces, edges) {
      places = itsPlaces;
      const told = edges.map(
        ({ i, j, kind }) => `${names[i]} to ${names[j]}${name === "predicted" ? ` (${KINDS[kind]})` : ""}`,
      );
      title.textContent = `${name === "given" ? "Given" : "Predicted"} graph: ${told.join(", ") || "no edges"}`;
      drawLines(edges);
      drawDots(names);
    },
  };
}
