// What the model is asked: a prompt when the marks have been changed, and poses for every query that waits for one.

import * as api from "./api.js";
import * as edits from "./edits.js";

const CALM = 150; // milliseconds without a change of the marks before the model is asked about them
const PATIENCE = [1, 2, 4, 8]; // seconds before a studio that did not answer is asked again
const AT_ONCE = 32; // photos per request: changed marks are taken up after at most so many

const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

/** onChange is called when `prompt`, `problem`, `thinking` or `progress` changed; effort() is how hard to look. */
export function createFinder(store, { effort, onChange, onBusy, onProblem, onAnswer, onDone }) {
  let asked = ""; // what the prompt was asked for
  let changed = 0; // when the marks were changed last
  let timer = null;
  let asking = null; // AbortController of the request for a prompt
  let answer = null; // promise of the prompt
  let run = null; // AbortController of the search
  const repeated = new Map(); // photo and box → { since, effort }: the step that asked to search it again, and how

  const question = (doc) => ({
    names: doc.names,
    skeleton: doc.skeleton,
    prior: doc.prior,
    shots: edits.markedShots(doc),
  });
  const keyOf = (query) => `${query.photo} ${query.box}`;
  const wanted = () => store.doc.queries.filter(finder.searches);

  const finder = {
    prompt: null, // the last answer: { id, names, prior, weights, graph, shots }
    problem: null, // why there is none
    thinking: false,
    progress: null, // { done, total } while searching
    stopped: false, // by a person, who will start it again

    /** Is this query to be searched, for the first time or again? */
    searches: (query) => query.state === "waiting" || repeated.has(keyOf(query)),

    /** Was its pose found with other marks than there are now? */
    outdated(query) {
      const id = finder.prompt?.id;
      const lacks = query.pose?.keypoints.some((place, k) => !place && !query.pose.moved[k]);
      const old = query.pose && query.foundWith && id && query.foundWith !== id;
      return Boolean(old && (query.state !== "accepted" || lacks));
    },

    /** Search all that wait. */
    async start() {
      finder.stopped = false;
      if (run || !wanted().length || !edits.canFind(store.doc)) return;
      run = new AbortController();
      const { signal } = run;
      finder.progress = { done: 0, total: wanted().length };
      onChange();
      try {
        for (let failures = 0; wanted().length && edits.canFind(store.doc);) {
          try {
            await searchSome(signal);
            failures = 0;
          } catch (problem) {
            if (problem.status !== 0 || signal.aborted) throw problem;
            onProblem(problem); // the studio is gone: it may come back
            await pause(1000 * PATIENCE[Math.min(failures++, PATIENCE.length - 1)]);
            signal.throwIfAborted();
          }
        }
        if (finder.progress.done) onDone(finder.progress.done);
      } catch (problem) {
        if (problem.name !== "AbortError") onProblem(problem, finder.start);
      } finally {
        [run, finder.progress] = [null, null];
        repeated.clear();
        onChange();
      }
    },

    stop() {
      finder.stopped = true;
      run?.abort();
    },

    /**
     * Search again what is given, or all that is out of date, or all that was not accepted. What was found before
     * stays until the answer is there; `since` is the step that undoing takes back, `how` the effort if not the usual.
     */
    again(queries = null, since = store.step(), how = null) {
      const outdated = store.doc.queries.filter(finder.outdated);
      const open = outdated.length ? outdated : store.doc.queries.filter(({ state }) => state !== "accepted");
      for (const query of queries ?? open) repeated.set(keyOf(query), { since, effort: how });
      if (finder.progress) finder.progress = { ...finder.progress, total: finder.progress.done + wanted().length };
      return finder.start();
    },

    /** A saved prompt was opened: it answers until a photo is marked. */
    adopt(prompt) {
      asked = JSON.stringify({ saved: prompt.id });
      answer = Promise.resolve(prompt);
      done(prompt, null);
    },
  };

  async function searchSome(signal) {
    const prompt = await calm()
      .then(currentPrompt)
      .catch((problem) => {
        if (problem.name !== "AbortError") throw problem;
        return null; // the marks changed meanwhile: ask anew
      });
    signal.throwIfAborted();
    if (!prompt) return;
    onAnswer();
    const effortOf = (query) => repeated.get(keyOf(query))?.effort ?? effort();
    const open = wanted();
    const how = effortOf(open[0]);
    const batch = open.filter((query) => effortOf(query) === how).slice(0, AT_ONCE);
    const { names } = store.doc;
    const photos = batch.map(({ photo, box }) => ({ photo, box }));
    let answered = 0;
    for await (const line of predictions({ prompt: prompt.id, photos, effort: how }, signal)) {
      const query = batch[line.index];
      const since = repeated.get(keyOf(query))?.since ?? 0;
      repeated.delete(keyOf(query));
      finder.progress = {
        done: finder.progress.done + 1,
        total: Math.max(finder.progress.total, finder.progress.done + 1),
      };
      store.absorb(
        line.error ? edits.notFound(query, line.error) : edits.found(query, names, line.pose, prompt.id),
        since,
      );
      answered++;
    }
    if (!answered) throw new api.Problem("The studio stopped answering before a photo was done.", 500);
    finder.progress = { ...finder.progress, total: finder.progress.done + wanted().length };
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

  /** When nobody has changed the marks for a moment. */
  async function calm() {
    for (let left; (left = changed + CALM - performance.now()) > 0;) await pause(left);
  }

  /** The prompt for the marks as they are now. */
  function currentPrompt() {
    const { doc } = store;
    const saved = doc.prompt && !doc.shots.length;
    const wants = JSON.stringify(saved ? { saved: doc.prompt } : question(doc));
    if (wants === asked) return answer;
    asked = wants;
    asking?.abort();
    asking = new AbortController();
    finder.thinking = true;
    onChange();
    const options = { signal: asking.signal, busy: onBusy };
    answer = saved ? api.knownPrompt(doc.prompt, options) : api.prompt(question(doc), options);
    answer.then(
      (prompt) => wants === asked && done(prompt, null),
      (problem) => {
        if (wants !== asked || problem.name === "AbortError") return;
        asked = "";
        done(null, problem);
        if (problem.status === 0) askSoon(1000 * PATIENCE[1]);
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
    for (const [key, { since }] of repeated) if (store.serial < since) repeated.delete(key); // undone
    const now = JSON.stringify([question(store.doc), store.doc.prompt]);
    if (now === last) return;
    [last, changed, asked] = [now, performance.now(), ""];
    clearTimeout(timer);
    asking?.abort(); // nobody waits for what it would answer
    if (edits.canFind(store.doc)) {
      finder.thinking = true;
      askSoon(CALM);
    } else done(null, null);
  });
  return finder;
}
