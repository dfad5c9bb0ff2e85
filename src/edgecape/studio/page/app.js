// Puts the parts together: one store, one saver, one finder, and the views that show them.

import * as api from "./api.js";
import { createAgreement } from "./agreement.js";
import { createFiles } from "./files.js";
import { createFinder } from "./finder.js";
import { createGallery } from "./gallery.js";
import { createGraphPanel } from "./graph.js";
import { createMarking } from "./marking.js";
import { dismiss, notify, say } from "./notices.js";
import { createPlaces } from "./places.js";
import { createReview } from "./review.js";
import { createSaver } from "./saving.js";
import { createShortcuts } from "./shortcuts.js";
import { createStore } from "./state.js";
import { count, set } from "./dom.js";

const byId = (id) => document.getElementById(id);
const store = createStore();
const saver = createSaver(store, showSaving);
const effort = () => localStorage.getItem("effort") ?? "auto";
const finder = createFinder(store, {
  effort,
  onChange: () => store.doc && render(),
  onBusy: (seconds) => notify(`The studio is busy; it goes on in ${seconds} s.`, { key: "busy" }),
  onAnswer: () => dismiss("find"),
  onDone: (photos) => say(`${count(photos, "photo")} searched`),
  onProblem: (problem, retry) =>
    notify(problem.message, { kind: "problem", key: "find", actions: retry ? [["Try again", retry]] : [] }),
});
const agreement = createAgreement(store, finder);
const files = createFiles(store, { reload, saver, finder });
const graph = createGraphPanel(store, finder, { savePrompt: files.savePrompt });
const marking = createMarking(store, {
  choosePhotos: () => files.choosePhotos("mark"),
  find: () => openTab("find"),
  say,
  warn: (text) => notify(text, { kind: "problem", key: "name" }),
  disagrees: agreement.disagrees,
  graphEdges: graph.overlayEdges,
});
const back = () => {
  const { photo } = store.doc.queries[store.look.query];
  store.show({ query: null, selected: null, drawer: null });
  gallery.focus(photo);
};
const review = createReview(store, finder, { say, back, taught: checkShots });
const gallery = createGallery(store, finder, {
  choosePhotos: () => files.choosePhotos("find"),
  open: (query) => (store.show({ query, selected: null }), review.stage.focus()),
  mark: () => openTab("mark"),
  correct: review.correctNext,
  suggest: suggestShot,
  effort,
  setEffort: (value) => localStorage.setItem("effort", value),
  exported: files.exported,
  say,
});

// --- showing ---------------------------------------------------------------------------------------------------

function render() {
  const { doc, look } = store;
  for (const tab of ["mark", "find"]) {
    byId(tab).hidden = look.tab !== tab;
    set(byId(`tab-${tab}`), { "aria-selected": String(look.tab === tab), tabindex: look.tab === tab ? "0" : "-1" });
  }
  byId("gallery").hidden = look.query !== null;
  byId("review").hidden = look.query === null;
  byId("tab-count").textContent = new Set(doc.queries.map(({ photo }) => photo)).size || "";
  for (const [panel, drawer] of [
    ["keypoints", "keypoints"],
    ["graph", "graph"],
    ["review-panel", "found"],
  ])
    byId(panel).classList.toggle("open", look.drawer === drawer);
  set(byId("undo"), { disabled: !store.canUndo });
  set(byId("redo"), { disabled: !store.canRedo });
  if (document.activeElement !== byId("project-name")) byId("project-name").value = doc.name;
  if (look.tab === "mark") {
    marking.render();
    graph.render();
  } else if (look.query === null) gallery.render();
  else review.render();
}

function openTab(tab) {
  store.show({ tab, query: null, selected: null, drawer: null });
  if (tab === "find" && !finder.stopped) finder.start(); // what was added before the marks were there
}

function showSaving({ state, message }) {
  const words = { saved: "Saved", saving: "Saving…", failed: "Not saved", conflict: "Not saved" };
  const line = byId("saving");
  line.dataset.state = state;
  if (line.textContent !== words[state]) line.textContent = words[state];
  if (state === "saved") return dismiss("saving");
  if (state === "failed") notify(message, { kind: "problem", key: "saving", actions: [["Save now", saver.flush]] });
  if (state === "conflict") {
    const theirs = async () => reload(await api.project());
    notify(message, {
      kind: "problem",
      key: "saving",
      actions: [
        ["Show the other version", () => files.attempt(theirs)],
        ["Keep mine", () => files.attempt(saver.overwrite)],
      ],
    });
  }
}

function reload(project) {
  store.open(project);
  saver.has(store.doc, project.revision);
  dismiss("saving");
}

// --- doing -----------------------------------------------------------------------------------------------------

function undo() {
  say(store.undo() ? "Undone" : "Nothing to undo");
}
function redo() {
  say(store.redo() ? "Redone" : "Nothing to redo");
}

/** Say when the photo that was just made a shot does not go with the others. */
function checkShots(photo) {
  return files.attempt(async () => {
    await agreement.check();
    const trouble = agreement.disagrees(photo.id);
    if (trouble) notify(`${photo.name} disagrees with the other shots. ${trouble}`, { kind: "problem", key: "shots" });
  }, "shots");
}

/** Open the photo that would teach the model most. */
function suggestShot() {
  return files.attempt(async () => {
    const open = store.doc.queries.filter(
      ({ photo, pose }) => pose && !store.doc.shots.some((shot) => shot.photo === photo),
    );
    const photos = [...new Set(open.map(({ photo }) => photo))];
    if (!photos.length) return say("There is no photo left to suggest.");
    await saver.flush(); // it goes by the poses that are saved
    const [best] = await api.suggestions({ prompt: finder.prompt.id, photos });
    store.show({ query: store.doc.queries.findIndex(({ photo }) => photo === best.photo), selected: null });
    review.stage.focus();
    notify("Many photos look more like this one than like your shots. Put it right, then use it as another shot.");
  }, "suggest");
}

const marks = () => store.look.tab === "mark";
const finds = () => store.look.tab === "find";
const reviews = () => finds() && store.look.query !== null;
const ready = () => reviews() && review.ready();
const stage = () => (marks() ? marking.stage : review.stage);
const turn = (by) => (marks() ? store.show({ shot: store.look.shot + by }) : reviews() && review.step(by));

/** Digits pick a keypoint; of more than nine, two digits in a row do, and 0 alone is the tenth. */
let typed = { text: "", at: 0 };
function pick(digit) {
  const now = performance.now();
  const number = store.doc.names.length;
  const both = now - typed.at < 900 ? Number(typed.text + digit) : NaN;
  const k = both >= 1 && both <= number ? both : Number(digit) || 10;
  typed = { text: String(k), at: now };
  (marks() ? marking : review).choose(k - 1);
}

const showHelp = createShortcuts([
  { keys: ["N"], about: "next to correct: the least certain photo that is not accepted", run: review.correctNext },
  { keys: ["Space"], about: "accept and go to the next photo", when: reviews, run: review.acceptAndNext },
  { keys: ["ArrowRight", "]"], about: "next photo", run: () => turn(1) },
  { keys: ["ArrowLeft", "["], about: "previous photo", run: () => turn(-1) },
  {
    keys: [..."1234567890"],
    shown: "1 … 9",
    about: "pick a keypoint (10 and more: two digits)",
    when: () => marks() || reviews(),
    run: pick,
  },
  {
    keys: ["H"],
    about: "the picked keypoint is hidden; on a found photo: not there",
    run: () => (marks() ? marking.hide() : reviews() && review.hide()),
  },
  { keys: ["A"], about: "accept the open photo, or take that back", when: ready, run: review.toggleAccepted },
  { keys: ["S"], about: "use the open photo as another shot", when: ready, run: review.useAsShot },
  { keys: ["B"], about: "box tool", when: marks, run: () => store.show({ tool: "box" }) },
  { keys: ["B"], when: reviews, run: () => review.draw("box") },
  { keys: ["O"], about: "box of another object on the open photo", when: reviews, run: () => review.draw("object") },
  { keys: ["C"], about: "compare with the pose before the last search", when: reviews, run: review.toggleCompare },
  { keys: ["P"], about: "keypoint tool", when: marks, run: () => store.show({ tool: "point" }) },
  { keys: ["E"], about: "edge tool", when: marks, run: () => store.show({ tool: "edge" }) },
  { keys: ["G"], about: "predicted graph on the photo", when: marks, run: graph.toggleOverlay },
  { keys: ["L"], about: "names on or off", run: marking.toggleNames },
  { keys: ["M"], about: "mark", run: () => openTab("mark") },
  { keys: ["F"], about: "find: all photos", run: () => openTab("find") },
  { keys: ["+", "="], about: "zoom in", run: () => stage().zoom(1.4) },
  { keys: ["-"], about: "zoom out", run: () => stage().zoom(1 / 1.4) },
  { keys: ["W"], about: "whole photo", run: () => stage().fit() },
  { keys: ["Ctrl+Z"], about: "undo", run: undo },
  { keys: ["Ctrl+Shift+Z", "Ctrl+Y"], about: "redo", run: redo },
  { keys: ["Escape"], when: () => store.look.drawer !== null, run: () => store.show({ drawer: null }) },
  { keys: ["Escape"], when: reviews, run: () => review.cancel() || back() },
  { keys: ["?"], about: "this help", run: () => showHelp() },
]);

byId("undo").onclick = undo;
byId("redo").onclick = redo;
byId("help-button").onclick = showHelp;
byId("tab-mark").onclick = () => openTab("mark");
byId("tab-find").onclick = () => openTab("find");
byId("tab-mark").parentElement.onkeydown = (event) => {
  if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
  openTab(marks() ? "find" : "mark");
  byId(`tab-${store.look.tab}`).focus();
};
for (const bar of ["review-tools", "review-actions"])
  byId(bar).addEventListener("click", (event) => {
    if (event.detail && event.target.closest("button")) review.stage.focus(); // so that Space and arrows go on there
  });
byId("project-name").onchange = (event) => store.change((doc) => ({ ...doc, name: event.target.value.trim() }));
byId("project-name").onkeydown = (event) => {
  if (event.key === "Enter") event.target.blur();
};

for (const menu of document.querySelectorAll("[popover]")) {
  menu.addEventListener("toggle", () => {
    const button = document.querySelector(`[popovertarget="${menu.id}"]`).getBoundingClientRect();
    menu.style.top = `${button.bottom + 6}px`;
    const room = document.documentElement.clientWidth - menu.offsetWidth - 8;
    menu.style.left = `${Math.max(Math.min(button.right - menu.offsetWidth, room), 8)}px`;
  });
}

const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
byId("theme").onclick = () => {
  const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
};

// --- starting --------------------------------------------------------------------------------------------------

async function watchModel() {
  for (;;) {
    const { model } = await api.status();
    finder.loading = model.state === "loading";
    if (store.doc) render();
    if (model.state === "failed")
      return notify(`The model could not be loaded: ${model.error}`, { kind: "problem", key: "model" });
    if (model.state === "ready") return;
    await new Promise((resume) => setTimeout(resume, 1000));
  }
}

async function start() {
  if (location.search.includes("token=")) history.replaceState(null, "", location.pathname + location.hash); // a cookie now
  store.subscribe(render);
  reload(await api.project());
  await files.fillMenus();
  if (!location.hash && store.doc.queries.length && !store.doc.shots.length) openTab("find");
  createPlaces(store).start();
  document.body.classList.add("ready");
  finder.start(); // goes on where the last visit was interrupted
  await watchModel();
}
const begin = () =>
  start().catch((problem) =>
    notify(problem.message, { kind: "problem", key: "start", actions: [["Try again", () => location.reload()]] }),
  );
begin();
