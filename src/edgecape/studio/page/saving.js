// The document goes to the service shortly after each change, one save at a time, tried again until it is there.

import * as api from "./api.js";

const CALM = 300; // milliseconds without a change before saving
const PATIENCE = [1, 2, 4, 8]; // seconds between attempts
const KEEPALIVE_BYTES = 60_000; // browsers let a closing page send no more than 64 kB

/** onState is told { state: "saved" | "saving" | "failed" | "conflict", message }. */
export function createSaver(store, onState) {
  let saved = null; // the document the service has
  let revision = 0;
  let timer = null;
  let running = null;
  let failures = 0; // in a row
  let trouble = false; // leaving the page now would lose something

  const pending = () => store.doc !== saved;
  const body = () => ({ ...store.doc, revision });
  const tell = (state, message = "") => {
    trouble = state === "failed" || state === "conflict";
    onState({ state, message });
  };

  const tellSaving = () => trouble || tell("saving"); // "not saved" stays until it is

  async function push() {
    while (pending()) {
      const sent = store.doc;
      tellSaving();
      try {
        ({ revision } = await api.save(body()));
      } catch (problem) {
        if (problem.status === 409) return tell("conflict", "This project was changed in another window.");
        tell("failed", problem.message);
        if (problem.status === 0) schedule(1000 * PATIENCE[Math.min(failures++, PATIENCE.length - 1)]);
        return;
      }
      saved = sent;
      failures = 0;
    }
    tell("saved");
  }

  function schedule(delay = CALM) {
    clearTimeout(timer);
    timer = setTimeout(() => saver.flush(), delay);
  }

  const saver = {
    /** The service has this document at this revision. */
    has(doc, itsRevision) {
      [saved, revision, failures] = [doc, itsRevision, 0];
      tell("saved");
    },

    /** Save now what is not saved yet; resolves when there is nothing more to do. */
    async flush() {
      clearTimeout(timer);
      running ??= push().finally(() => (running = null));
      await running;
      return !pending();
    },

    /** Our document over the one from another window. */
    async overwrite() {
      ({ revision } = await api.project());
      return saver.flush();
    },

    get pending() {
      return pending();
    },
  };

  store.subscribe(() => {
    if (pending()) {
      tellSaving();
      schedule();
    }
  });
  addEventListener("pagehide", () => {
    if (!pending()) return;
    const text = JSON.stringify(body());
    api.save(body(), text.length < KEEPALIVE_BYTES).catch(() => {});
  });
  addEventListener("visibilitychange", () => document.visibilityState === "hidden" && saver.flush());
  addEventListener("beforeunload", (event) => trouble && pending() && event.preventDefault());
  return saver;
}
