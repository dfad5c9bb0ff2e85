// The bar above the gallery: drives the search, chooses and sorts the photos, says what the last search changed.

import * as edits from "./edits.js";
import { summary as changesOf } from "./changes.js";
import { count, createSelect, h, icon, set } from "./dom.js";
import { photosOf, SHOW, SORT } from "./order.js";

const EFFORTS = [
  ["auto", "Auto"],
  ["fast", "Fast"],
  ["best", "Best"],
];
const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

/** actions: { choosePhotos(), mark(), correct(), suggest(), effort(), setEffort(value), fade(threshold), say(text), exported() }. */
export function createFindBar(store, finder, actions) {
  const summary = h("p", { class: "summary" });
  const meter = h("progress", { "aria-label": "Photos searched", max: "1" });
  const stop = h("button", { type: "button", class: "text", onclick: finder.stop }, "Stop");
  const go = h("button", { type: "button", class: "primary" });
  const again = h(
    "button",
    { type: "button", onclick: () => finder.again(), title: "What you moved or accepted stays" },
    icon("again"),
    h("span", {}, "Find again"),
  );
  const correct = h(
    "button",
    { type: "button", onclick: actions.correct, title: "Open the photo that most needs a look (N)" },
    icon("skip"),
    h("span", {}, "Next to correct"),
  );
  const suggest = h(
    "button",
    {
      type: "button",
      onclick: actions.suggest,
      title: "Open the photo that would teach the model most as another shot",
    },
    icon("bulb"),
    h("span", {}, "Suggest a shot"),
  );
  const more = h(
    "button",
    { type: "button", onclick: actions.choosePhotos, title: "Add photos or a video" },
    icon("plus"),
    h("span", {}, "Add photos"),
  );
  const show = createSelect("Show", [], (value) => store.show({ show: value }));
  const sort = createSelect(
    "Sort",
    Object.entries(SORT).map(([value, { label }]) => [value, label]),
    (value) => store.show({ sort: value }),
  );
  const effort = createSelect("Effort", EFFORTS, actions.setEffort);
  effort.element.title =
    "How hard the next search looks: Fast once, Best in every way it can, Auto again where the first look leaves doubt";
  const fade = createFade(store, actions.fade);
  const banner = createBanner(store, finder, actions);

  const bar = document.getElementById("find-bar");
  bar.append(
    h(
      "div",
      { class: "find-row" },
      summary,
      meter,
      stop,
      h("span", { class: "space" }),
      correct,
      suggest,
      more,
      again,
      go,
    ),
    h("div", { class: "find-row choices" }, show.element, sort.element, effort.element, fade.element),
    banner.element,
  );

  function offers() {
    const { doc, photos } = store;
    const facts = { outdated: finder.outdated, exported: actions.exported(), photos };
    const all = photosOf(doc.queries);
    const some = Object.entries(SHOW)
      .map(([value, { label, keep }]) => [value, label, all.filter((entry) => keep(entry, facts)).length])
      .filter(([value, , number]) => value === "all" || value === store.look.show || (number && number < all.length));
    const clips = [...new Set(all.map(({ photo }) => photos[photo].clip).filter(Boolean))];
    const frames = (clip) => all.filter(({ photo }) => photos[photo].clip === clip).length;
    return [
      ...some.map(([value, label, number]) => [value, `${label} (${number})`]),
      ...clips.map((clip) => [`clip ${clip}`, `${clip} (${frames(clip)})`]),
    ];
  }

  return {
    render() {
      const { doc, look } = store;
      const { progress } = finder;
      const ready = edits.canFind(doc);
      const tally = { waiting: 0, predicted: 0, accepted: 0, failed: 0 };
      for (const query of doc.queries) tally[query.state]++;
      const outdated = doc.queries.filter(finder.outdated).length;
      const poses = doc.queries.some(({ pose }) => pose);
      bar.hidden = !doc.queries.length;
      meter.hidden = stop.hidden = !progress;
      if (progress) set(meter, { max: String(Math.max(progress.total, 1)), value: progress.done });
      summary.textContent = progress
        ? finder.loading
          ? "Loading the model; this takes a moment the first time…"
          : `Searching: ${progress.done} of ${progress.total}`
        : [
            count(new Set(doc.queries.map(({ photo }) => photo)).size, "photo"),
            tally.accepted && `${tally.accepted} accepted`,
            tally.waiting && `${tally.waiting} waiting`,
            tally.failed && `${tally.failed} failed`,
            outdated && `${outdated} found with other marks`,
          ]
            .filter(Boolean)
            .join(" · ");
      go.hidden = Boolean(progress) || (ready && !tally.waiting);
      go.textContent = ready ? `Find on ${count(tally.waiting, "photo")}` : "Mark keypoints first";
      go.onclick = ready ? finder.start : actions.mark;
      again.hidden = Boolean(progress) || !ready || !poses || tally.waiting > 0;
      again.classList.toggle("primary", outdated > 0);
      correct.hidden = !tally.predicted && !tally.failed;
      suggest.hidden = Boolean(progress) || !finder.prompt || tally.predicted < 2;
      show.offer(offers());
      show.show(look.show);
      sort.show(look.sort);
      effort.show(actions.effort());
      fade.render();
      banner.render();
    },
  };
}

/** The slider that fades what is uncertain; on an open photo, work.css compares each part's score with the number. */
function createFade(store, fade) {
  const slider = h("input", { type: "range", min: "0", max: "1", step: "0.01", id: "score-threshold" });
  const shown = h("output", { for: "score-threshold" });
  const tell = (value) => {
    document.getElementById("review").style.setProperty("--threshold", value);
    fade(Number(value));
    shown.textContent = Number(value).toFixed(2);
  };
  slider.oninput = () => tell(slider.value);
  slider.onchange = () => {
    const scoreThreshold = Number(slider.value);
    store.absorb((doc) => ({ ...doc, settings: { ...doc.settings, scoreThreshold } }));
  };
  const label = h("label", { for: "score-threshold" }, "Fade below");
  let told = null;
  return {
    element: h("div", { class: "field inline" }, label, slider, shown),
    render() {
      const { scoreThreshold } = store.doc.settings;
      if (scoreThreshold === told) return;
      told = scoreThreshold;
      set(slider, { value: String(scoreThreshold) });
      tell(scoreThreshold);
    },
  };
}

/** After a search with other marks: what it changed, and the way back. */
function createBanner(store, finder, actions) {
  const text = h("p");
  const look = h(
    "button",
    { type: "button", onclick: () => store.show({ show: "moved", sort: "moved" }) },
    "Show them",
  );
  const keep = h("button", { type: "button" }, "Keep");
  const back = h("button", { type: "button" }, "");
  keep.onclick = () => {
    store.change(edits.keepFound);
    store.show({ show: "all", sort: "added", compare: false });
  };
  const element = h("div", { class: "banner", role: "status" }, text, h("div", { class: "row" }, look, keep, back));
  return {
    element,
    render() {
      const { doc, photos } = store;
      const { photos: number, mean, collapsed, before, after } = changesOf(doc.queries);
      element.hidden = !number || Boolean(finder.progress);
      if (element.hidden) return;
      const last = doc.shots.at(-1)?.photo;
      const shot = doc.shots.length > 1 && doc.queries.some(({ photo }) => photo === last) ? last : null;
      text.textContent =
        `${shot ? `With ${photos[shot].name} as a shot` : "With your new marks"}, ` +
        `keypoints of ${count(number, "pose")} moved, by ${percent(mean)} of the object on average. ` +
        `Mean score ${before.toFixed(2)} → ${after.toFixed(2)}.` +
        (collapsed ? ` On ${count(collapsed, "photo")}, keypoints fell onto each other.` : "");
      element.classList.toggle("worse", collapsed > 0);
      look.hidden = store.look.show === "moved";
      back.textContent = shot ? "Take the shot back" : "Back to the earlier poses";
      back.onclick = () => {
        store.change((now) => edits.takeBack(now, shot));
        store.show({ show: "all", sort: "added" });
        actions.say(shot ? "The shot is taken back" : "The earlier poses are back");
      };
    },
  };
}
