// The project as the page holds it: the document with its past and future, and what is being looked at.

const DEEPEST = 200; // steps that can be undone

export function createStore() {
  const listeners = [];
  let past = []; // { doc, serial }, oldest first
  let future = [];
  let serial = 0; // of the document there is; every step gets the next one
  let latest = 0;
  let merging = null;
  let telling = false;
  let again = false;

  const store = {
    doc: null, // names, skeleton, prior, shots, queries, settings …: what is saved
    photos: {}, // id → { id, name, width, height, clip, frame, time }
    look: {
      tab: "mark",
      shot: 0,
      tool: "point",
      selected: null, // keypoint
      query: null, // number of the query that is open, null for the gallery
      order: [], // ids of photos as the gallery showed them last
      overlay: false,
      graph: "drawing",
      drawer: null, // panel that is open over the photo where the screen is small
      show: "all", // of order.js: which photos, and in which order
      sort: "added",
      compare: false,
    },

    /** Another project: nothing to undo. */
    open({ photos, ...doc }) {
      [past, future, merging] = [[], [], null];
      store.doc = doc;
      store.photos = { ...photos };
      Object.assign(store.look, { shot: 0, selected: null, query: null, order: [], show: "all", compare: false });
      tell();
    },

    addPhotos(photos) {
      for (const photo of photos) store.photos[photo.id] = photo;
    },

    /** A person's edit. Edits of one kind in a row (a drag, a run of arrow keys) are one step if they share `merge`. */
    change(edit, merge = null) {
      const next = edit(store.doc);
      if (next === store.doc) return;
      if (merge === null || merge !== merging) push();
      future = [];
      merging = merge;
      store.doc = next;
      tell();
    },

    /** Begin a step to which what is absorbed later will belong; its number. */
    step() {
      push();
      [future, merging] = [[], null];
      return serial;
    },

    /**
     * What no person edited (a pose that was found, a slider). It becomes part of every past and future, so that undo
     * keeps it; with `since`, only of that step and later ones, so that undoing the step takes it back.
     */
    absorb(edit, since = 0) {
      const late = (entry) => (entry.serial < since ? entry : { ...entry, doc: edit(entry.doc) });
      past = past.map(late);
      future = future.map(late);
      if (serial >= since) store.doc = edit(store.doc);
      tell();
    },

    undo: () => go(past, future),
    redo: () => go(future, past),
    get serial() {
      return serial;
    },
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

  function push() {
    past.push({ doc: store.doc, serial });
    if (past.length > DEEPEST) past.shift();
    serial = ++latest;
  }

  function go(from, to) {
    if (!from.length) return false;
    to.push({ doc: store.doc, serial });
    ({ doc: store.doc, serial } = from.pop());
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
