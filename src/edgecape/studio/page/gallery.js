// The photos to search, as cards with what was found on them, and the bar above that drives the search.

import * as api from "./api.js";
import * as edits from "./edits.js";
import { count, h, icon, iconButton, pool, s, set } from "./dom.js";
import { colour } from "./palette.js";

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);

/** actions: { choosePhotos(), open(index), mark(), say(text) }. */
export function createGallery(store, finder, actions) {
  const bar = createBar(store, finder, actions);
  const cards = document.getElementById("cards");
  const update = pool(cards, makeCard, updateCard);

  function makeCard(n) {
    const image = h("img", { alt: "", loading: "lazy", draggable: "false" });
    const overlay = s("svg", { class: "pose", "aria-hidden": "true" });
    const open = h("button", { type: "button", class: "open", onclick: () => actions.open(n) }, image, overlay);
    const [name, score] = [h("span", { class: "name" }), h("span", { class: "score" })];
    const accept = iconButton("tick", "", () => toggleAccepted(n), { class: "accept" });
    const again = h(
      "button",
      { type: "button", class: "text", onclick: () => finder.again([store.doc.queries[n]]) },
      icon("again"),
      "Try again",
    );
    const away = iconButton("close", "", () => remove(n), { class: "away" });
    const problem = h("p", { class: "problem" });
    const card = h(
      "div",
      { class: "card", role: "listitem" },
      open,
      away,
      h("div", { class: "foot" }, name, score, accept),
      h("div", { class: "trouble" }, problem, again),
    );
    return Object.assign(card, { image, overlay, open, name, score, accept, away, problem, again, seen: "" });
  }

  function updateCard(card, query, n) {
    const { doc, photos } = store;
    const { scoreThreshold } = doc.settings;
    const now = [query, doc.names, doc.skeleton, scoreThreshold, n];
    if (card.seen && now.every((part, index) => part === card.seen[index])) return; // most cards do not change
    card.seen = now;
    const photo = photos[query.photo];
    const done = query.pose && query.state !== "waiting" && query.state !== "failed";
    const scores = query.pose?.scores.map((score, k) => (query.pose.moved[k] ? 1 : score));
    const score = done ? mean(scores.filter((_, k) => query.pose.keypoints[k])) : null;
    const words = {
      waiting: "waiting",
      predicted: `score ${score?.toFixed(2)}`,
      accepted: "accepted",
      failed: "failed",
    }[query.state];
    set(card, { class: `card ${query.state}` });
    set(card.image, { src: api.photoUrl(photo.id, true) });
    set(card.open, { "aria-label": `${photo.name}, ${words}. Open` });
    card.name.textContent = photo.name;
    card.name.title = photo.name;
    card.score.textContent = done ? score.toFixed(2) : query.state === "failed" ? "failed" : "waiting";
    card.score.title = done ? "Mean score of the keypoints that were found" : "";
    set(card.accept, {
      hidden: !done,
      "aria-pressed": String(query.state === "accepted"),
      "aria-label": `Accept ${photo.name}`,
      title: "Accept",
    });
    set(card.away, { "aria-label": `Remove ${photo.name}`, title: `Remove ${photo.name}` });
    card.problem.textContent = query.error ?? "";
    card.problem.parentElement.hidden = query.state !== "failed";
    drawPose(card.overlay, photo, done ? query.pose : null, doc, scoreThreshold);
  }

  function toggleAccepted(n) {
    const accepted = store.doc.queries[n].state !== "accepted";
    store.change((doc) => edits.acceptQuery(doc, n, accepted));
    actions.say(accepted ? "Accepted" : "No longer accepted");
  }

  function remove(n) {
    store.change((doc) => edits.removeQuery(doc, n));
    actions.say("Photo removed. Undo brings it back.");
  }

  return function render() {
    const { doc } = store;
    bar();
    cards.hidden = !doc.queries.length;
    document.getElementById("find-empty").hidden = doc.queries.length > 0;
    update(doc.queries);
  };
}

/** Keypoints and edges over a small picture, in photo pixels, as large as suits the picture. */
function drawPose(overlay, photo, pose, { names, skeleton }, threshold) {
  set(overlay, { viewBox: `0 0 ${photo.width} ${photo.height}` });
  if (!pose) return overlay.replaceChildren();
  const size = Math.max(photo.width, photo.height) / 42;
  const sure = (k) => pose.moved[k] || pose.scores[k] >= threshold;
  const whole = skeleton.filter((edge) => edge.every((k) => pose.keypoints[k]));
  const lines = whole.map(([i, j]) => {
    const [[x1, y1], [x2, y2]] = [pose.keypoints[i], pose.keypoints[j]];
    return s("line", { x1, y1, x2, y2, "stroke-width": size / 3, class: sure(i) && sure(j) ? "" : "faded" });
  });
  const there = [...names.keys()].filter((k) => pose.keypoints[k]);
  const dots = there.map((k) => {
    const [cx, cy] = pose.keypoints[k];
    return s("circle", {
      cx,
      cy,
      r: size * 0.8,
      "stroke-width": size / 3.5,
      fill: colour(k),
      class: sure(k) ? "" : "faded",
    });
  });
  overlay.replaceChildren(...lines, ...dots);
}

function createBar(store, finder, actions) {
  const summary = h("p", { class: "summary" });
  const meter = h("progress", { "aria-label": "Photos searched", max: "1" });
  const stop = h("button", { type: "button", class: "text", onclick: finder.stop }, "Stop");
  const go = h("button", { type: "button", class: "primary" });
  const again = h("button", { type: "button", onclick: () => finder.again() }, icon("again"), "Find again");
  const more = h("button", { type: "button", onclick: actions.choosePhotos }, icon("plus"), "Add photos");
  const threshold = h("input", { type: "range", min: "0", max: "1", step: "0.01", id: "score-threshold" });
  const shown = h("output", { for: "score-threshold" });
  threshold.oninput = () => {
    const scoreThreshold = Number(threshold.value);
    store.absorb((doc) => ({ ...doc, settings: { ...doc.settings, scoreThreshold } }));
  };
  const fade = h(
    "div",
    { class: "field inline" },
    h("label", { for: "score-threshold" }, "Fade below"),
    threshold,
    shown,
  );
  const bar = document.getElementById("find-bar");
  bar.append(summary, meter, stop, h("span", { class: "space" }), fade, more, again, go);

  return () => {
    const { doc } = store;
    const tally = { waiting: 0, predicted: 0, accepted: 0, failed: 0 };
    for (const query of doc.queries) tally[query.state]++;
    const { progress } = finder;
    const outdated = finder.outdated.length;
    bar.hidden = !doc.queries.length;
    meter.hidden = stop.hidden = !progress;
    if (progress) set(meter, { max: String(Math.max(progress.total, 1)), value: progress.done });
    summary.textContent = progress
      ? finder.loading
        ? "Loading the model; this takes a moment the first time…"
        : `Searching: ${progress.done} of ${progress.total}`
      : [
          count(doc.queries.length, "photo"),
          tally.accepted && `${tally.accepted} accepted`,
          tally.waiting && `${tally.waiting} waiting`,
          tally.failed && `${tally.failed} failed`,
          outdated && "your marks changed since",
        ]
          .filter(Boolean)
          .join(" · ");
    const ready = edits.canFind(doc);
    go.hidden = Boolean(progress) || (ready && !tally.waiting);
    go.textContent = ready ? `Find on ${count(tally.waiting, "photo")}` : "Mark keypoints first";
    go.onclick = ready ? finder.start : actions.mark;
    again.hidden = Boolean(progress) || !ready || !tally.predicted || tally.waiting > 0;
    again.classList.toggle("primary", outdated > 0);
    set(threshold, { value: String(doc.settings.scoreThreshold) });
    shown.textContent = doc.settings.scoreThreshold.toFixed(2);
  };
}
