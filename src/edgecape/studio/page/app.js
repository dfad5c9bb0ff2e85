// Puts the parts together: one store, one saver, one finder, and the views that show them.

import * as api from "./api.js";
import { createFiles } from "./files.js";
import { createFinder } from "./finder.js";
import { createGallery } from "./gallery.js";
import { createGraphPanel } from "./graph.js";
import { createMarking } from "./marking.js";
import { dismiss, notify, say } from "./notices.js";
import { createReview } from "./review.js";
import { createSaver } from "./saving.js";
import { createShortcuts } from "./shortcuts.js";
import { createStore } from "./state.js";
import { count, set } from "./dom.js";

const byId = (id) => document.getElementById(id);
const store = createStore();
const saver = createSaver(store, showSaving);
const finder = createFinder(store, {
  onChange: () => store.doc && render(),
  onBusy: (seconds) => notify(`The studio is busy; it goes on in ${seconds} s.`, { key: "busy" }),
  onDone: (photos) => say(`${count(photos, "photo")} searched`),
  onProblem: (problem, retry) =>
    notify(problem.message, { kind: "problem", key: "find", actions: [["Try again", retry]] }),
});
const files = createFiles(store, { reload, saver, finder });
const graph = createGraphPanel(store, finder, { savePrompt: files.savePrompt });
const marking = createMarking(store, {
  choosePhotos: () => files.choosePhotos("mark"),
  find: () => openTab("find"),
  say,
  warn: (text) => notify(text, { kind: "problem", key: "name" }),
  graphEdges: graph.overlayEdges,
});
const back = () => {
  const from = store.look.query;
  store.show({ query: null, selected: null });
  byId("cards").children[from]?.open.focus();
};
const review = createReview(store, finder, { say, back });
const gallery = createGallery(store, finder, {
  choosePhotos: () => files.choosePhotos("find"),
  open: (query) => (store.show({ query, selected: null }), review.stage.focus()),
  mark: () => openTab("mark"),
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
  byId("tab-count").textContent = doc.queries.length || "";
  set(byId("undo"), { disabled: !store.canUndo });
  set(byId("redo"), { disabled: !store.canRedo });
  if (document.activeElement !== byId("project-name")) byId("project-name").value = doc.name;
  if (look.tab === "mark") {
    marking.render();
    graph.render();
  } else if (look.query === null) gallery();
  else review.render();
}

function openTab(tab) {
  store.show({ tab, query: null, selected: null });
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
const marks = () => store.look.tab === "mark";
const reviews = () => store.look.tab === "find" && store.look.query !== null;
const stage = () => (marks() ? marking.stage : review.stage);
const showHelp = createShortcuts([
  { keys: ["Ctrl+Z"], about: "undo", run: undo },
  { keys: ["Ctrl+Shift+Z", "Ctrl+Y"], about: "redo", run: redo },
  { keys: ["1"], about: "mark", run: () => openTab("mark") },
  { keys: ["2"], about: "find", run: () => openTab("find") },
  { keys: ["P"], about: "keypoint tool", when: marks, run: () => store.show({ tool: "point" }) },
  { keys: ["E"], about: "edge tool", when: marks, run: () => store.show({ tool: "edge" }) },
  { keys: ["B"], about: "box tool", when: marks, run: () => store.show({ tool: "box" }) },
  { keys: ["B"], about: "box, when a found photo is open", when: reviews, run: review.toggleBox },
  { keys: ["N"], about: "names on or off", run: marking.toggleNames },
  { keys: ["G"], about: "predicted graph on the photo", when: marks, run: graph.toggleOverlay },
  { keys: ["+", "="], about: "zoom in", run: () => stage().zoom(1.4) },
  { keys: ["-"], about: "zoom out", run: () => stage().zoom(1 / 1.4) },
  { keys: ["0"], about: "whole photo", run: () => stage().fit() },
  {
    keys: ["]"],
    about: "next photo",
    run: () => (marks() ? store.show({ shot: store.look.shot + 1 }) : reviews() && review.step(1)),
  },
  {
    keys: ["["],
    about: "previous photo",
    run: () => (marks() ? store.show({ shot: store.look.shot - 1 }) : reviews() && review.step(-1)),
  },
  { keys: ["A"], about: "accept the open photo", when: () => reviews() && review.ready(), run: review.toggleAccepted },
  {
    keys: ["S"],
    about: "use the open photo as another shot",
    when: () => reviews() && review.ready(),
    run: review.useAsShot,
  },
  { keys: ["Escape"], about: "back to all photos", when: reviews, run: back },
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
byId("project-name").onchange = (event) => store.change((doc) => ({ ...doc, name: event.target.value.trim() }));
byId("project-name").onkeydown = (event) => {
  if (event.key === "Enter") event.target.blur();
};

for (const menu of document.querySelectorAll("[popover]")) {
  menu.addEventListener("toggle", () => {
    const button = document.querySelector(`[popovertarget="${menu.id}"]`).getBoundingClientRect();
    menu.style.top = `${button.bottom + 6}px`;
    menu.style.right = `${Math.max(document.documentElement.clientWidth - button.right, 8)}px`;
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
  if (location.search.includes("token=")) history.replaceState(null, "", location.pathname); // it is a cookie now
  store.subscribe(render);
  reload(await api.project());
  await files.fillMenus();
  document.body.classList.add("ready");
  if (store.doc.queries.length && !store.doc.shots.length) openTab("find");
  await watchModel();
}
const begin = () =>
  start().catch((problem) =>
    notify(problem.message, { kind: "problem", key: "start", actions: [["Try again", () => location.reload()]] }),
  );
begin();
