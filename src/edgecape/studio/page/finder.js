// What the model is asked: a prompt whenever the marks change, and poses for every query that is "waiting".

import * as api from "./api.js";
import * as edits from "./edits.js";

const CALM = 400; // milliseconds without a change before the graph is asked for
const PATIENCE = 3000; // milliseconds before a studio that did not answer is asked again
const AT_ONCE = 32; // photos per request: changed marks are taken up after at most so many

/** onChange is called when `prompt`, `problem`, `thinking` or `progress` changed. */
export function createFinder(store, { onChange, onBusy, onProblem, onDone }) {
  let asked = ""; // what the prompt was asked for
  let timer = null;
  let asking = null; // AbortController of the request for a prompt
  let answer = null; // promise of the prompt
  let run = null; // AbortController of the search
  const usedPrompt = new Map(); // photo and box → id of the prompt that found its pose

  const question = ({ names, skeleton, prior, shots }) => ({ names, skeleton, prior, shots });
  const keyOf = (query) => `${query.photo} ${query.box}`;
  const waiting = () => store.doc.queries.filter((query) => query.state === "waiting");

  const finder = {
    prompt: null, // the last answer: { id, names, prior, weights, graph, shots }
    problem: null, // why there is none
    thinking: false,
    progress: null, // { done, total } while searching

    /** Poses found with other marks than there are now. */
    get outdated() {
      const id = finder.prompt?.id;
      const differs = (query) => usedPrompt.has(keyOf(query)) && usedPrompt.get(keyOf(query)) !== id;
      return store.doc.queries.filter((query) => query.state === "predicted" && differs(query));
    },

    /** Search all that wait. */
    async start() {
      if (run || !edits.canFind(store.doc)) return;
      run = new AbortController();
      finder.progress = { done: 0, total: waiting().length };
      onChange();
      try {
        while (waiting().length && edits.canFind(store.doc)) await searchSome(run.signal);
        if (finder.progress.done) onDone(finder.progress.done);
      } catch (problem) {
        if (problem.name !== "AbortError") onProblem(problem, finder.start);
      } finally {
        run = null;
        finder.progress = null;
        onChange();
      }
    },

    stop: () => run?.abort(),

    /** Search again what is given, or everything that was not accepted. */
    again(queries = store.doc.queries) {
      store.absorb((doc) => queries.reduce(edits.findAgain, doc));
      return finder.start();
    },

    /** A saved prompt was opened: it answers until a photo is marked. */
    adopt(prompt) {
      asked = JSON.stringify({ saved: prompt.id });
      [finder.prompt, finder.problem, answer] = [prompt, null, Promise.resolve(prompt)];
      onChange();
    },
  };

  async function searchSome(signal) {
    const prompt = await currentPrompt().catch((problem) => {
      if (problem.name !== "AbortError") throw problem;
      return null; // the marks changed meanwhile: ask anew
    });
    signal.throwIfAborted();
    if (!prompt) return;
    const batch = waiting().slice(0, AT_ONCE);
    const { names } = store.doc;
    const body = { prompt: prompt.id, photos: batch.map(({ photo, box }) => ({ photo, box })) };
    let answered = 0;
    for await (const line of predictions(body, signal)) {
      const query = batch[line.index];
      usedPrompt.set(keyOf(query), prompt.id);
      store.absorb((doc) =>
        line.error ? edits.notFound(doc, query, line.error) : edits.found(doc, query, names, line.pose),
      );
      finder.progress = { done: ++finder.progress.done, total: finder.progress.done + waiting().length };
      answered++;
      onChange();
    }
    if (!answered) throw new api.Problem("The studio stopped answering before a photo was done.");
  }

  /** Poses from the service; a prompt it has forgotten is made again, once. */
  async function* predictions(body, signal) {
    try {
      yield* api.predictions(body, { signal, busy: onBusy });
    } catch (problem) {
      if (problem.status !== 404 || !store.doc.shots.length) throw problem;
      asked = "";
      const { id } = await currentPrompt();
      yield* api.predictions({ ...body, prompt: id }, { signal, busy: onBusy });
    }
  }

  /** The prompt for the marks as they are now. */
  function currentPrompt() {
    const { doc } = store;
    const saved = doc.prompt && !doc.shots.length;
    const wanted = JSON.stringify(saved ? { saved: doc.prompt } : question(doc));
    if (wanted === asked) return answer;
    asked = wanted;
    asking?.abort();
    asking = new AbortController();
    finder.thinking = true;
    onChange();
    const options = { signal: asking.signal, busy: onBusy };
    answer = saved ? api.knownPrompt(doc.prompt, options) : api.prompt(question(doc), options);
    answer.then(
      (prompt) => wanted === asked && done(prompt, null),
      (problem) => {
        if (wanted !== asked || problem.name === "AbortError") return;
        asked = "";
        done(null, problem);
        if (problem.status === 0) askSoon(PATIENCE);
      },
    );
    return answer;
  }

  function done(prompt, problem) {
    Object.assign(finder, { prompt, problem, thinking: false });
    onChange();
  }

  function askSoon(delay) {
    clearTimeout(timer);
    timer = setTimeout(() => edits.canFind(store.doc) && currentPrompt().catch(() => {}), delay);
  }

  let last = "";
  store.subscribe(() => {
    const now = JSON.stringify([question(store.doc), store.doc.prompt]);
    if (now === last) return;
    last = now;
    clearTimeout(timer);
    if (edits.canFind(store.doc)) askSoon(CALM);
    else {
      asking?.abort();
      asked = "";
      done(null, null);
    }
  });
  return finder;
}
