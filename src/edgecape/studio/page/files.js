// Everything that comes in or goes out as a file: photos, labels, prompts, project archives, exports, examples.

import * as api from "./api.js";
import * as edits from "./edits.js";
import { count, h, icon } from "./dom.js";
import { ask, notify, say } from "./notices.js";
import { fillTemplates } from "./templates.js";

const FIRST = 2; // photos in the first upload, so that the first pose is soon there,
const AT_ONCE = 10; // and in the others, so that the first appear before the last is sent
const MANY = 3; // more photos than this at once are probably not all to be marked
const PHOTO = /\.(jpe?g|png|webp|bmp|tiff?|gif|heic|heif|avif)$/i;
const VIDEO = /\.(mp4|m4v|mov|avi|mkv|webm|mpe?g|wmv)$/i;
const LABELS = /\.(json|csv|slp|h5|hdf5|ya?ml)$/i;

/** actions: { reload(project), saver, finder }. */
export function createFiles(store, { reload, saver, finder }) {
  /** Run something that may fail; the message offers to try again. */
  async function attempt(work, key) {
    try {
      return await work();
    } catch (problem) {
      if (!(problem instanceof api.Problem)) throw problem;
      const actions = problem.status === 0 ? [["Try again", () => attempt(work, key)]] : [];
      notify(problem.message, { kind: "problem", key, actions });
    }
  }

  function choose(run, { multiple = true, accept = "image/*,video/*,.heic,.heif" } = {}) {
    const input = h("input", { type: "file", accept, "aria-label": "Choose files" });
    input.multiple = multiple;
    input.onchange = () => input.files.length && run([...input.files]);
    input.click();
  }

  const refused = ({ name, error }) =>
    notify(error.includes(name) ? error : `${name}: ${error}`, { kind: "problem", key: `file ${name}` });

  // --- photos and videos --------------------------------------------------------------------------------------

  /** Upload photos and videos and put them where they belong; those that are neither are named. */
  async function addFiles(files, target) {
    const photos = files.filter((file) => !isVideo(file));
    const before = store.doc.shots.length;
    const merge = `files ${performance.now()}`; // one step to undo
    for (let start = 0, size = FIRST; start < photos.length; start += size, size = AT_ONCE) {
      const part = photos.slice(start, start + size);
      if (photos.length > AT_ONCE) say(`Adding photos ${start + 1} to ${start + part.length} of ${photos.length}`);
      await attempt(async () => take(await api.upload(part), target, merge), "photos");
    }
    const added = store.doc.shots.slice(before).map(({ photo }) => photo);
    if (target === "mark" && added.length > MANY) offerToSearch(added.slice(1));
    for (const file of files.filter(isVideo)) await addVideo(file, target);
  }
  const isVideo = (file) => file.type.startsWith("video/") || VIDEO.test(file.name);

  async function addVideo(file, target) {
    const frames = await ask(`Frames of ${file.name}`, "How many photos are to be taken from it, evenly spread?", [
      ["30", 30],
      ["100", 100, "primary"],
      ["300", 300],
    ]);
    if (!frames) return;
    notify(`Reading ${file.name}…`);
    await attempt(async () => take(await api.uploadVideo(file, frames), target), "video");
  }

  /** What was uploaded, to be marked or searched; of a video, the first frame is to be marked. */
  function take({ photos, failed }, target, merge = null) {
    store.addPhotos(photos);
    failed.forEach(refused);
    const ids = photos.map(({ id }) => id);
    if (!ids.length) return;
    const clip = photos.some((photo) => photo.clip);
    if (target === "mark") {
      const shot = store.doc.shots.length;
      const [shots, queries] = clip ? [ids.slice(0, 1), ids.slice(1)] : [ids, []];
      store.change((doc) => edits.addQueries(edits.addShots(doc, shots), queries), merge);
      store.show({ shot, selected: null });
      document.getElementById("mark-stage").focus();
      if (clip) notify(`Mark this frame; the other ${ids.length - 1} are in Find.`);
    } else {
      store.change((doc) => edits.addQueries(doc, ids), merge);
      finder.start();
    }
    say(`${count(ids.length, "photo")} added`);
  }

  /** Few people want to mark many photos: more likely they are to be searched. */
  function offerToSearch(ids) {
    const move = () => {
      store.change((doc) =>
        edits.addQueries({ ...doc, shots: doc.shots.filter(({ photo }) => !ids.includes(photo)) }, ids),
      );
      say(`${count(ids.length, "photo")} moved to Find`);
    };
    notify(`${count(ids.length + 1, "photo")} to mark. One is enough to begin with.`, {
      key: "many",
      actions: [[`Mark one, search ${ids.length}`, move]],
    });
  }

  // --- starting from something --------------------------------------------------------------------------------

  function start(found) {
    store.addPhotos(found.photos ?? []);
    store.change((doc) => edits.startFrom(doc, found));
    store.show({ tab: found.shots.length ? "mark" : "find", shot: 0, selected: null, query: null, tool: "point" });
  }

  const openExample = (name) =>
    attempt(async () => {
      start(await api.example(name));
      if (!store.doc.name) store.change((doc) => ({ ...doc, name }));
      finder.start();
    }, "example");

  const openLabels = (files) =>
    attempt(async () => {
      const labels = files.find((file) => LABELS.test(file.name));
      if (!labels) {
        const names = files.map((file) => file.name).join(", ");
        return notify(`No label file among ${names}; choose one (COCO, LabelMe …) with its photos.`, {
          kind: "problem",
        });
      }
      const found = await api.importLabels(
        labels,
        files.filter((file) => file !== labels),
      );
      start(found);
      (found.failed ?? []).forEach(refused);
      for (const note of found.notes ?? []) notify(note);
      const missing = found.missing ?? [];
      if (missing.length) {
        const some = missing.slice(0, 3).join(", ") + (missing.length > 3 ? " …" : "");
        notify(
          `${labels.name} labels ${count(missing.length, "photo")} more, which you did not choose with it: ${some}`,
        );
      }
    }, "labels");

  const openPrompt = ([file]) =>
    attempt(async () => {
      const prompt = await api.openPrompt(file);
      start({ names: prompt.names, skeleton: prompt.skeleton, shots: [], prompt: prompt.id });
      finder.adopt(prompt);
      notify(`${file.name} is ready: ${count(prompt.names.length, "keypoint")}. Drop the photos to search.`);
    }, "prompt");

  const openArchive = ([file]) =>
    attempt(async () => {
      await api.openArchive(file);
      reload(await api.project());
      notify(`${file.name} is open.`);
    }, "archive");

  async function startEmpty() {
    const choices = [
      ["Save a copy, then start empty", "save", "primary"],
      ["Start empty", "empty", "danger"],
    ];
    const choice = await ask(
      "Start a new project?",
      "This takes everything out of the project folder, photos too. It cannot be undone.",
      choices,
    );
    if (!choice) return;
    await attempt(async () => {
      await saver.flush();
      if (choice === "save") await api.saveArchive();
      await api.reset();
      reload(await api.project());
    }, "reset");
  }

  // --- out ----------------------------------------------------------------------------------------------------

  /** Downloads show what is on the screen, so save first. */
  const download = (what, get) =>
    attempt(async () => {
      if (!(await saver.flush()))
        return notify("The last changes are not saved yet; try again when they are.", { kind: "problem" });
      notify(`${what} saved as ${await get()}.`);
    }, "download");

  const saveArchive = () => download("Project", api.saveArchive);
  const savePrompt = () => finder.prompt && download("Prompt", () => api.savePrompt(finder.prompt.id));
  const exportAs = (format, photos) =>
    download("Labels", async () => {
      const name = await api.exportLabels(format, photos);
      localStorage.setItem("exported", String(Date.now()));
      return name;
    });

  // --- dropping -----------------------------------------------------------------------------------------------

  function receive(files) {
    const zip = files.find((file) => /\.zip$/i.test(file.name));
    const prompt = files.find((file) => /\.(prompt|safetensors)$/i.test(file.name));
    if (zip) openArchive([zip]);
    else if (prompt) openPrompt([prompt]);
    else if (files.some((file) => LABELS.test(file.name) && !PHOTO.test(file.name))) openLabels(files);
    else if (files.length) addFiles(files, store.look.tab);
  }

  const veil = document.getElementById("drop-veil");
  addEventListener("dragover", (event) => {
    event.preventDefault();
    veil.classList.add("on");
    veil.firstElementChild.textContent = store.look.tab === "mark" ? "Drop photos to mark" : "Drop photos to search";
  });
  addEventListener("dragleave", (event) => event.relatedTarget === null && veil.classList.remove("on"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    veil.classList.remove("on");
    receive([...event.dataTransfer.files]);
  });
  addEventListener("paste", (event) => event.clipboardData.files.length && receive([...event.clipboardData.files]));

  // --- menus and empty pages ----------------------------------------------------------------------------------

  const START = {
    labels: {
      text: "Labels of another tool…",
      about: "COCO, LabelMe, DeepLabCut …, with their photos",
      run: () => choose(openLabels, { accept: "" }),
    },
    prompt: {
      text: "Saved prompt…",
      about: "A .prompt file saved here or by a script",
      run: () => choose(openPrompt, { multiple: false, accept: "" }),
    },
    archive: {
      text: "Saved project…",
      about: "A .zip saved here",
      run: () => choose(openArchive, { multiple: false, accept: ".zip" }),
    },
  };
  const item = (text, about, run) => {
    const close = (event) => (event.target.closest("[popover]")?.hidePopover(), run());
    return h("button", { type: "button", onclick: close }, h("span", {}, text), about && h("small", {}, about));
  };

  async function fillMenus() {
    const [formats, examples, templates] = await Promise.all([api.formats(), api.examples(), api.templates()]);
    fillTemplates(store, templates);
    const withPhotos = h("input", { type: "checkbox" });
    const exports = formats.map(({ name, title, about }) =>
      item(title, about, () => exportAs(name, withPhotos.checked)),
    );
    const choice = h("label", { class: "check" }, withPhotos, "Put the photos in, too (.zip)");
    document.getElementById("export-menu").append(choice, h("hr"), h("h2", {}, "Shots and found poses as"), ...exports);
    document
      .getElementById("project-menu")
      .append(
        item("Save a copy…", "Marks, poses and photos in one .zip", saveArchive),
        h("h2", {}, "Start from"),
        ...Object.values(START).map(({ text, about, run }) => item(text, about, run)),
        ...examples.map(({ name, about }) => item(`Example: ${name}`, about, () => openExample(name))),
        h("hr"),
        item("New, empty project…", "", startEmpty),
      );
    const tries = examples.map(({ name, about }) =>
      h("button", { type: "button", title: about, onclick: () => openExample(name) }, title(name)),
    );
    const others = Object.values(START).map(({ text, run }) =>
      h("button", { type: "button", class: "text", onclick: run }, text),
    );
    document
      .getElementById("mark-empty")
      .append(
        welcome(
          "Start with one photo",
          "You mark its keypoints once; they are found on all your other photos.",
          "mark",
          "Choose a photo",
        ),
        h("div", { class: "tries" }, h("span", {}, "Try an example"), ...tries),
        h("div", { class: "others" }, h("span", {}, "Or go on from"), ...others),
      );
  }
  document
    .getElementById("find-empty")
    .append(
      welcome(
        "Now the other photos",
        "Drop as many as you like, or a video. The keypoints are found on each, and you correct what is wrong.",
        "find",
        "Choose photos",
      ),
    );

  function welcome(heading, text, target, label) {
    return h(
      "div",
      { class: "welcome" },
      icon("photo"),
      h("h2", {}, heading),
      h("p", {}, text),
      h("button", { type: "button", class: "primary large", onclick: () => choosePhotos(target) }, label),
      h("p", { class: "hint" }, `or drop ${target === "mark" ? "it" : "them"} anywhere on this page`),
    );
  }
  const choosePhotos = (target) => choose((files) => addFiles(files, target));
  const title = (name) => name[0].toUpperCase() + name.slice(1);

  return {
    choosePhotos,
    savePrompt,
    saveArchive,
    attempt,
    fillMenus,
    exported: () => Number(localStorage.getItem("exported") ?? Infinity),
  };
}
