// The project as the page holds it: the document with its past and future, and what is being looked at.

const DEEPEST = 200; // steps that can be undone

export function createStore() {
  const listeners = [];
  let past = [];
  let future = [];
  let merging = null;
  let telling = false;
  let again = false;

  const store = {
    doc: null, // names, skeleton, prior, shots, queries, settings …: what is saved
    photos: {}, // id → { id, name, width, height }
    look: { tab: "mark", shot: 0, tool: "point", selected: null, query: null, overlay: false, graph: "drawing" },

    /** Another project: nothing to undo. */
    open({ photos, ...doc }) {
      [past, future, merging] = [[], [], null];
      store.doc = doc;
      store.photos = { ...photos };
      store.look = { ...store.look, shot: 0, selected: null, query: null };
      tell();
    },

    addPhotos(photos) {
      for (const photo of photos) store.photos[photo.id] = photo;
    },

    /** A person's edit. Edits of one kind in a row (a drag, a run of arrow keys) are one step if they share `merge`. */
    change(edit, merge = null) {
      const next = edit(store.doc);
      if (next === store.doc) return;
      if (merge === null || merge !== merging) past.push(store.doc);
      if (past.length > DEEPEST) past.shift();
      future = [];
      merging = merge;
      store.doc = next;
      tell();
    },

    /** What no person edited (a pose that was found, a slider): part of every past and future, so undo keeps it. */
    absorb(edit) {
      past = past.map(edit);
      future = future.map(edit);
      store.doc = edit(store.doc);
      tell();
    },

    undo: () => step(past, future),
    redo: () => step(future, past),
    get canUndo() {
      return past.length > 0;
    },
    get canRedo() {
      return future.length > 0;
    },

    /** Look at something else; not part of the document. */
    show(look) {
      Object.assign(store.look, look);
      tell();
    },

    subscribe(listener) {
      listeners.push(listener);
    },
  };

  function step(from, to) {
    if (!from.length) return false;
    to.push(store.doc);
    store.doc = from.pop();
    merging = null;
    tell();
    return true;
  }

  function tell() {
    const { look, doc } = store;
    look.shot = Math.max(0, Math.min(look.shot, doc.shots.length - 1));
    if (look.selected !== null && look.selected >= doc.names.length) look.selected = null;
    if (look.query !== null && look.query >= doc.queries.length)
      look.query = doc.queries.length ? doc.queries.length - 1 : null;
    again = true;
    if (telling) return; // a listener changed something: everybody is told once more
    telling = true;
    try {
      while (again) {
        again = false;
        for (const listener of listeners) listener(store);
      }
    } finally {
      telling = false;
    }
  }
  return store;
}
