// A photo with keypoints, edges and a box on it, to look at and to work on. It draws what show() is given and tells the
// handlers what a person wants; it changes nothing itself.

import * as api from "./api.js";
import { h, iconButton, set } from "./dom.js";
import { listen } from "./gestures.js";
import { createMarks } from "./marks.js";
import { Viewport } from "./viewport.js";

const REACH = { mouse: 14, pen: 18, touch: 26 }; // how near a pointer must come, in pixels
const EDGE_REACH = { mouse: 8, pen: 10, touch: 16 };
const STEP = 8; // pixels the crosshair moves per key
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * handlers (all optional): place(at), move(k, at, merge), select(k), connect(i, j), cut(i, j), box([x, y, w, h]),
 * remove(k), other(n), viewed(viewport). Tools: "point" places and moves, "edge" connects and cuts, "box", "move" moves
 * only.
 */
export function createStage(host, handlers) {
  const view = new Viewport();
  const picture = h("img", { alt: "", draggable: "false", class: "picture" });
  const marks = createMarks(view, focused);
  host.append(picture, marks.element);
  set(host, { tabindex: "0", role: "application" });

  let scene = { photo: null, points: [], edges: [], box: null, tool: "move", selected: null, label: "" };
  let crosshair = null; // photo place, while the keyboard works on the photo
  let corner = null; // first corner of a box made by keyboard
  let from = null; // keypoint an edge starts at
  let nudges = 0; // a run of arrow keys is one step to undo

  function draw() {
    picture.style.transform = view.transform;
    picture.classList.toggle("pixels", view.scale * devicePixelRatio >= 6);
    marks.draw(scene, from);
    marks.crosshair(crosshair && host.matches(":focus") ? crosshair : null);
    if (corner) marks.box(boxOf(corner, crosshair));
    handlers.viewed?.(view);
  }

  // --- pointing -----------------------------------------------------------------------------------------------

  const distance = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

  function pointAt(place, event) {
    const reach = REACH[event.pointerType] ?? REACH.mouse;
    const near = scene.points
      .map((point, k) => ({ k, far: point ? distance(view.toScreen(point), place) : Infinity }))
      .sort((a, b) => a.far - b.far)[0];
    return near && near.far <= reach ? near.k : null;
  }

  function edgeAt(place, event) {
    const reach = EDGE_REACH[event.pointerType] ?? EDGE_REACH.mouse;
    return scene.edges.find(({ i, j, kind }) => {
      if (kind !== "skeleton" || !scene.points[i] || !scene.points[j]) return false;
      const [a, b] = [view.toScreen(scene.points[i]), view.toScreen(scene.points[j])];
      const along = ((place.x - a.x) * (b.x - a.x) + (place.y - a.y) * (b.y - a.y)) / Math.max(distance(a, b) ** 2, 1);
      const t = Math.min(Math.max(along, 0), 1);
      return distance(place, { x: a.x + t * (b.x - a.x), y: a.y + t * (b.y - a.y) }) <= reach;
    });
  }

  /** The smallest other object whose box is around a place of the photo. */
  function otherAt({ x, y }) {
    const around = (scene.others ?? []).filter(
      ({ box }) => box && x >= box[0] && y >= box[1] && x <= box[0] + box[2] && y <= box[1] + box[3],
    );
    return around.sort((a, b) => a.box[2] * a.box[3] - b.box[2] * b.box[3])[0]?.n ?? null;
  }

  function join(k) {
    if (from === null) from = k;
    else {
      if (from !== k) handlers.connect?.(from, k);
      from = null;
    }
    handlers.select?.(k);
    draw();
  }

  function tap(place, event) {
    const k = pointAt(place, event);
    if (!scene.photo) return;
    if (scene.tool === "edge") {
      if (k !== null) return join(k);
      const edge = edgeAt(place, event);
      from = null;
      return edge ? handlers.cut?.(edge.i, edge.j) : draw();
    }
    if (k !== null) {
      handlers.select?.(k);
      marks.focus(k);
      return;
    }
    host.focus({ preventScroll: true });
    const at = view.toPhoto(place);
    const other = scene.tool === "move" ? otherAt(at) : null;
    if (other !== null) return handlers.other?.(other);
    if (scene.tool === "point" && view.contains(at)) handlers.place?.(view.onPhoto(at));
  }

  function grab(place, event) {
    const k = pointAt(place, event);
    if (scene.tool === "box") return drawnBox(place);
    if (k === null || event.button === 1) return null;
    return scene.tool === "edge" ? drawnEdge(k) : movedPoint(k, place);
  }

  function movedPoint(k, place) {
    const merge = `drag ${k} ${++nudges}`;
    handlers.select?.(k);
    marks.focus(k);
    const marker = view.toScreen(scene.points[k]);
    const held = { x: marker.x - place.x, y: marker.y - place.y }; // so that it does not jump to the pointer
    host.classList.add("dragging");
    const move = (to) => handlers.move?.(k, view.onPhoto(view.toPhoto({ x: to.x + held.x, y: to.y + held.y })), merge);
    return { move, end: () => host.classList.remove("dragging"), cancel: () => host.classList.remove("dragging") };
  }

  function drawnEdge(k) {
    from = k;
    return {
      move: (to) => marks.stretch(k, to),
      end: (to) => {
        marks.stretch(null);
        from = null;
        const other = pointAt(to, { pointerType: "touch" }); // let go anywhere near
        if (other !== null && other !== k) handlers.connect?.(k, other);
        draw();
      },
      cancel: () => ((from = null), marks.stretch(null)),
    };
  }

  function drawnBox(place) {
    const first = view.onPhoto(view.toPhoto(place));
    const span = (to) => boxOf(first, view.onPhoto(view.toPhoto(to)));
    const end = (to) => (span(to) ? handlers.box?.(span(to)) : draw());
    return { move: (to) => marks.box(span(to)), end, cancel: draw };
  }

  function boxOf(a, b) {
    const box = [Math.min(a.x, b.x), Math.min(a.y, b.y), Math.abs(a.x - b.x), Math.abs(a.y - b.y)];
    return box[2] >= 1 && box[3] >= 1 ? box : null;
  }

  listen(host, {
    tap,
    grab,
    pan: (dx, dy) => (view.pan(dx, dy), draw()),
    pinch: (before, after) => (view.pinch(before, after), draw()),
    wheel: (place, event) => (view.zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), place), draw()),
    hover: (place, event) => {
      const over = place && (pointAt(place, event) !== null || (scene.tool === "edge" && edgeAt(place, event)));
      host.classList.toggle("over", Boolean(over));
      if (from !== null && place) marks.stretch(from, place);
    },
  });

  // --- keyboard -----------------------------------------------------------------------------------------------

  function focused(k) {
    if (scene.selected !== k) handlers.select?.(k);
    view.reveal(scene.points[k]);
    draw();
  }

  function moveCrosshair([dx, dy], coarse) {
    crosshair ??= view.onPhoto(view.toPhoto({ x: view.stage.width / 2, y: view.stage.height / 2 }));
    const at = view.toScreen(crosshair);
    const step = coarse ? 5 * STEP : STEP;
    crosshair = view.onPhoto(view.toPhoto({ x: at.x + dx * step, y: at.y + dy * step }));
    view.reveal(crosshair);
    draw();
  }

  function pressOnPhoto() {
    if (scene.tool === "point") return handlers.place?.(crosshair);
    if (scene.tool !== "box") return;
    const box = corner && boxOf(corner, crosshair);
    corner = corner ? null : crosshair;
    if (box) handlers.box?.(box);
  }

  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
    const point = event.target.closest("[data-point]");
    const edge = event.target.closest("[data-edge]");
    const arrow = ARROWS[event.key];
    const enter = event.key === "Enter" || event.key === " ";
    if (point && arrow) {
      const k = Number(point.dataset.point);
      const { x, y } = scene.points[k];
      const step = event.shiftKey ? 10 : 1;
      handlers.move?.(k, view.onPhoto({ x: x + arrow[0] * step, y: y + arrow[1] * step }), `nudge ${k} ${nudges}`);
      view.reveal(scene.points[k]);
      draw();
    } else if (point && enter && scene.tool === "edge") join(Number(point.dataset.point));
    else if (point && (event.key === "Delete" || event.key === "Backspace")) {
      handlers.remove?.(Number(point.dataset.point));
      host.focus();
    } else if (edge && (enter || event.key === "Delete" || event.key === "Backspace")) {
      handlers.cut?.(...edge.dataset.edge.split("-").map(Number));
      host.focus();
    } else if ((point || edge) && (event.key === "," || event.key === "."))
      marks.focusNext(point ?? edge, event.key === "," ? -1 : 1);
    else if (event.target === host && arrow && scene.photo && scene.tool !== "move")
      moveCrosshair(arrow, event.shiftKey);
    else if (event.target === host && enter && crosshair && scene.tool !== "move") pressOnPhoto();
    else if (event.key === "Escape" && (from !== null || corner)) {
      [from, corner] = [null, null];
      marks.stretch(null);
      draw();
    } else if (event.key === "Escape" && (point || edge || scene.selected !== null)) {
      handlers.select?.(null);
      host.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  host.addEventListener("focusin", () => {
    nudges++; // a new run of arrow keys
    draw();
  });
  host.addEventListener("pointerdown", () => ([crosshair, corner] = [null, null])); // the pointer points now
  host.addEventListener("focusout", () => requestAnimationFrame(draw));

  new ResizeObserver(() => {
    view.resize(host.clientWidth, host.clientHeight);
    draw();
  }).observe(host);

  return {
    view,
    /** Show a scene: { photo, points, edges, box, tool, selected, showNames, naming, label }. */
    show(next) {
      const changed = next.photo?.id !== scene.photo?.id;
      if (next.tool !== scene.tool || changed) [from, corner] = [null, null];
      if (from !== null && !next.points[from]) from = null;
      scene = next;
      if (from === null) marks.stretch(null);
      host.dataset.tool = scene.tool;
      set(host, { "aria-label": scene.label });
      if (changed && scene.photo) {
        crosshair = null;
        set(picture, { src: api.photoUrl(scene.photo.id), width: scene.photo.width, height: scene.photo.height });
        view.resize(host.clientWidth, host.clientHeight);
        view.show(scene.photo);
      }
      draw();
    },
    fit: () => (view.fit(), draw()),
    zoom: (factor) => (view.zoom(factor), draw()),
    focus: () => host.focus({ preventScroll: true }),
    focusPoint: marks.focus,
  };
}

/** Zoom out, whole photo, zoom in. */
export function zoomButtons(stage) {
  return h(
    "div",
    { class: "zoom", role: "group", "aria-label": "Zoom" },
    iconButton("minus", "Zoom out", () => stage().zoom(1 / 1.4)),
    iconButton("fit", "Show the whole photo", () => stage().fit()),
    iconButton("plus", "Zoom in", () => stage().zoom(1.4)),
  );
}
