// What is drawn over a photo: box, edges, keypoints, crosshair. Sizes are screen pixels whatever the zoom.

import { pool, s, set } from "./dom.js";

/** A drawing that follows a viewport; onFocus(k) is told when a keypoint gets the focus. */
export function createMarks(view, onFocus) {
  const [shade, frame] = [s("path", { class: "shade" }), s("rect", { class: "frame" })];
  const [edgeLayer, pointLayer] = [s("g"), s("g")];
  const rubber = s("line", { class: "rubber" });
  const cross = s(
    "g",
    { class: "crosshair" },
    s("path", { d: "M-22 0H-6M6 0H22M0 -22V-6M0 6V22" }),
    s("circle", { r: 2 }),
  );
  const element = s("svg", { class: "marks" }, shade, frame, edgeLayer, rubber, pointLayer, cross);
  let scene = null;
  let from = null; // keypoint an edge is being drawn from

  const drawEdges = pool(
    edgeLayer,
    () => s("g", {}, s("line", { class: "casing" }), s("line", { class: "line" })),
    (group, { i, j, kind, weight, faded }) => {
      const [a, b] = [view.toScreen(scene.points[i]), view.toScreen(scene.points[j])];
      const cuttable = scene.tool === "edge" && kind === "skeleton";
      const width = kind === "skeleton" ? 2.5 : 1 + 5 * weight;
      const names = `${scene.points[i].name} to ${scene.points[j].name}`;
      set(group, {
        class: `edge ${kind}${faded ? " faded" : ""}${cuttable ? " cuttable" : ""}`,
        tabindex: cuttable ? "0" : null,
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
      return s("g", { "data-point": k, role: "button", onfocus: () => onFocus(k) }, ...circles, s("text", { y: -9 }));
    },
    (group, point, k) => {
      set(group, { display: point ? null : "none", tabindex: point ? "0" : null });
      if (!point) return;
      const at = view.toScreen(point);
      const selected = k === scene.selected || k === from;
      const classes = ["point", selected && "selected", point.hidden && "hidden", point.faded && "faded"];
      const place = `x ${point.x.toFixed(1)}, y ${point.y.toFixed(1)}`;
      set(group, {
        class: classes.filter(Boolean).join(" "),
        transform: `translate(${at.x} ${at.y})`,
        "aria-label": `${point.name}, ${place}${point.hidden ? ", hidden" : ""}${point.note ?? ""}`,
        "aria-pressed": String(selected),
      });
      const [, , dot, text] = group.children;
      set(dot, { fill: point.hidden ? "none" : point.colour, stroke: point.colour });
      const right = at.x + 20 + 8 * point.name.length < view.stage.width; // the name goes to the side with room
      set(text, { x: right ? 13 : -13, "text-anchor": right ? "start" : "end" });
      text.textContent = scene.showNames || selected ? point.name : "";
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

  return {
    element,
    box, // draws a box that is not in the scene yet
    draw(itsScene, start) {
      [scene, from] = [itsScene, start];
      drawEdges(scene.edges.filter(({ i, j }) => scene.points[i] && scene.points[j]));
      drawPoints(scene.points);
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
  };
}
