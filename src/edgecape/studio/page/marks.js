// What is drawn over a photo: boxes, edges, keypoints, names, crosshair. Sizes are screen pixels whatever the zoom.

import { pool, s, set } from "./dom.js";
import { placeLabels } from "./labels.js";
import { colour } from "./palette.js";

/** A drawing that follows a viewport; onFocus(k) is told when a keypoint gets the focus. */
export function createMarks(view, onFocus) {
  const [shade, frame] = [s("path", { class: "shade" }), s("rect", { class: "frame" })];
  const [otherLayer, ghostLayer, edgeLayer, pointLayer, labelLayer] = ["others", "ghosts", "", "", "labels"].map(
    (name) => s("g", { class: name }),
  );
  const rubber = s("line", { class: "rubber" });
  const cross = s(
    "g",
    { class: "crosshair" },
    s("path", { d: "M-22 0H-6M6 0H22M0 -22V-6M0 6V22" }),
    s("circle", { r: 2 }),
  );
  const layers = [shade, frame, otherLayer, ghostLayer, edgeLayer, rubber, labelLayer, pointLayer, cross];
  const element = s("svg", { class: "marks" }, ...layers);
  let scene = null;
  let from = null; // keypoint an edge is being drawn from
  let stops = { edge: null, point: null }; // the one edge and keypoint in the tab order

  const drawEdges = pool(
    edgeLayer,
    () => s("g", {}, s("line", { class: "casing" }), s("line", { class: "line" })),
    (group, { i, j, kind, weight, score = 1 }, n) => {
      const [a, b] = [view.toScreen(scene.points[i]), view.toScreen(scene.points[j])];
      const cuttable = scene.tool === "edge" && kind === "skeleton";
      const width = kind === "skeleton" ? 2.5 : 1 + 5 * weight;
      const names = `${scene.points[i].name} to ${scene.points[j].name}`;
      set(group, {
        class: `edge ${kind}${cuttable ? " cuttable" : ""}`,
        "--score": score,
        tabindex: cuttable ? (n === stops.edge ? "0" : "-1") : null,
        role: cuttable ? "button" : null,
        "aria-label": cuttable ? `Edge from ${names}, press Delete to remove` : null,
        "data-edge": `${i}-${j}`,
        opacity: kind === "skeleton" || kind === "weakened" ? null : 0.35 + 0.65 * weight,
      });
      const ends = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
      set(group.children[0], { ...ends, "stroke-width": width + 2.5 });
      set(group.children[1], { ...ends, "stroke-width": width });
    },
  );

  const drawPoints = pool(
    pointLayer,
    (k) => {
      const circles = [
        s("circle", { class: "halo", r: 13 }),
        s("circle", { class: "rim", r: 8 }),
        s("circle", { class: "dot", r: 6 }),
      ];
      return s("g", { "data-point": k, role: "button", onfocus: () => onFocus(k) }, ...circles);
    },
    (group, point, k) => {
      set(group, { display: point ? null : "none", tabindex: !point ? null : k === stops.point ? "0" : "-1" });
      if (!point) return;
      const at = view.toScreen(point);
      const chosen = k === scene.selected || k === from;
      const place = `x ${point.x.toFixed(1)}, y ${point.y.toFixed(1)}`;
      set(group, {
        class: ["point", chosen && "selected", point.hidden && "hidden"].filter(Boolean).join(" "),
        "--score": point.score ?? 1,
        transform: `translate(${at.x} ${at.y})`,
        "aria-label": `${point.name}, ${place}${point.hidden ? ", hidden" : ""}${point.note ?? ""}`,
        "aria-pressed": String(chosen),
      });
      set(group.lastChild, { fill: point.hidden ? "none" : point.colour, stroke: point.colour });
    },
  );

  const drawNames = pool(
    labelLayer,
    () => s("text", { "aria-hidden": "true" }),
    (text, label) => {
      set(text, { display: label ? null : "none" });
      if (!label) return;
      set(text, { x: label.x, y: label.y, "text-anchor": label.anchor, "--score": label.score });
      text.textContent = label.name;
    },
  );

  /** Names beside the keypoints: all of them or only the chosen one. */
  function drawLabels() {
    const places = scene.points.map((point) => point && view.toScreen(point));
    const wanted = scene.points.map((point, k) => {
      const first = k === scene.selected || k === from;
      return point && k !== scene.naming && (scene.showNames || first) ? { ...places[k], text: point.name, first } : null;
    });
    const sides = placeLabels(wanted, places.filter(Boolean), view.stage);
    drawNames(
      sides.map((side, k) => {
        if (!side) return null;
        const { name, score = 1 } = scene.points[k];
        return { name, score, anchor: side.anchor, x: places[k].x + side.x, y: places[k].y + side.y };
      }),
    );
  }

  /** Where keypoints were before, each with a line to where it is. */
  const drawGhosts = pool(
    ghostLayer,
    (k) => s("g", {}, s("line"), s("circle", { r: 5, stroke: colour(k) })),
    (group, place, k) => {
      const here = scene.points[k];
      set(group, { display: place ? null : "none" });
      if (!place) return;
      const a = view.toScreen({ x: place[0], y: place[1] });
      const b = here ? view.toScreen(here) : a;
      set(group.firstChild, { x1: a.x, y1: a.y, x2: b.x, y2: b.y });
      set(group.lastChild, { cx: a.x, cy: a.y });
    },
  );

  /** Other objects of the photo, thin: a frame and a pose each. */
  const drawOthers = pool(
    otherLayer,
    () => s("g", {}, s("path", { class: "box" }), s("path", { class: "bones" }), s("g")),
    (group, { box, keypoints, skeleton }) => {
      const [outline, bones, dots] = group.children;
      const at = keypoints.map((place) => place && view.toScreen({ x: place[0], y: place[1] }));
      const corner = box && view.toScreen({ x: box[0], y: box[1] });
      const size = box && box.slice(2).map((side) => side * view.scale);
      set(outline, { d: box ? `M${corner.x} ${corner.y}h${size[0]}v${size[1]}h${-size[0]}z` : "M0 0" });
      const whole = skeleton.filter(([i, j]) => at[i] && at[j]);
      set(bones, { d: whole.map(([i, j]) => `M${at[i].x} ${at[i].y}L${at[j].x} ${at[j].y}`).join("") || "M0 0" });
      const there = at.map((place, k) => place && { ...place, k }).filter(Boolean);
      dots.replaceChildren(...there.map(({ x, y, k }) => s("circle", { cx: x, cy: y, r: 4, fill: colour(k) })));
    },
  );

  function box(value) {
    for (const part of [frame, shade]) set(part, { display: value ? null : "none" });
    if (!value) return;
    const a = view.toScreen({ x: value[0], y: value[1] });
    const b = view.toScreen({ x: value[0] + value[2], y: value[1] + value[3] });
    const { width, height } = view.stage;
    set(frame, { x: a.x, y: a.y, width: b.x - a.x, height: b.y - a.y });
    set(shade, { d: `M0 0H${width}V${height}H0Z M${a.x} ${a.y}V${b.y}H${b.x}V${a.y}Z` });
  }

  /** Of the keypoints and of the edges, one each can be reached by Tab: the focused, else the chosen, else the first. */
  function chooseStops(edges) {
    const focused = document.activeElement;
    const edge = [...edgeLayer.children].indexOf(focused);
    const chosen = scene.points[scene.selected] ? scene.selected : scene.points.findIndex(Boolean);
    const point = focused?.parentNode === pointLayer ? Number(focused.dataset.point) : chosen;
    stops = { edge: edge >= 0 && edge < edges.length ? edge : 0, point };
  }

  return {
    element,
    box, // draws a box that is not in the scene yet
    draw(itsScene, start) {
      [scene, from] = [itsScene, start];
      const edges = scene.edges.filter(({ i, j }) => scene.points[i] && scene.points[j]);
      chooseStops(edges);
      drawOthers(scene.others ?? []);
      drawGhosts(scene.ghosts ?? []);
      drawEdges(edges);
      drawPoints(scene.points);
      drawLabels();
      box(scene.box);
    },
    /** A line from a keypoint to the pointer, or none. */
    stretch(k, to) {
      const a = k === null ? null : view.toScreen(scene.points[k]);
      set(rubber, a ? { class: "rubber on", x1: a.x, y1: a.y, x2: to.x, y2: to.y } : { class: "rubber" });
    },
    crosshair(place) {
      const at = place && view.toScreen(place);
      set(cross, { display: at ? null : "none", transform: at ? `translate(${at.x} ${at.y})` : null });
    },
    focus: (k) => pointLayer.children[k]?.focus({ preventScroll: true }),
    /** From a focused keypoint or edge to the next or the one before. */
    focusNext(focused, by) {
      const all = [...focused.parentNode.children].filter((one) => one.checkVisibility());
      all[(all.indexOf(focused) + by + all.length) % all.length].focus({ preventScroll: true });
    },
  };
}
