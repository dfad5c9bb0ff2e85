// Which photos are shown, in which order, and which is to be corrected next.

import { compare } from "./changes.js";

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);

/** Mean score of the keypoints that were found; what a person moved is certain. Null without a pose. */
export function scoreOf({ pose }) {
  if (!pose) return null;
  const there = pose.keypoints.map(Boolean);
  return mean(pose.scores.map((score, k) => (pose.moved[k] ? 1 : score)).filter((_, k) => there[k]));
}

/**
 * The photos to search, in the order they were added, each with its queries (one per object):
 * { photo, queries, indices, score, state, change }. A photo is as good as its worst object.
 */
export function photosOf(queries) {
  const photos = new Map();
  queries.forEach((query, index) => {
    const entry = photos.get(query.photo) ?? { photo: query.photo, queries: [], indices: [] };
    entry.queries.push(query);
    entry.indices.push(index);
    photos.set(query.photo, entry);
  });
  const worst = ["failed", "waiting", "predicted", "accepted"];
  for (const entry of photos.values()) {
    const scores = entry.queries.map(scoreOf).filter((score) => score !== null);
    entry.score = scores.length ? Math.min(...scores) : null;
    entry.state = worst.find((state) => entry.queries.some((query) => query.state === state));
    entry.changed = Math.max(...entry.queries.map((query) => query.changed ?? 0));
  }
  return [...photos.values()];
}

/** How far the last search moved the keypoints of a photo, as a share of the object's size. */
export const movedBy = ({ queries }) =>
  Math.max(0, ...queries.map(({ earlier, pose }) => (earlier && pose ? compare(earlier, pose).mean : 0)));

/** Ways to choose: value → { label, keep(entry, facts) }; facts: { outdated(query), exported, photos }. */
export const SHOW = {
  all: { label: "All photos", keep: () => true },
  unreviewed: { label: "Not accepted yet", keep: ({ state }) => state !== "accepted" },
  accepted: { label: "Accepted", keep: ({ state }) => state === "accepted" },
  failed: { label: "Failed", keep: ({ state }) => state === "failed" },
  outdated: { label: "Found with other marks", keep: ({ queries }, { outdated }) => queries.some(outdated) },
  moved: {
    label: "Changed by the last search",
    keep: ({ queries }) => queries.some(({ earlier, state }) => earlier && state !== "accepted"),
  },
  since: { label: "Changed since the last export", keep: ({ changed }, { exported }) => changed > exported },
};

const byScore = (a, b) => (a.score ?? 2) - (b.score ?? 2);

/** Ways to sort: value → { label, compare }. */
export const SORT = {
  added: { label: "As added", compare: null },
  score: { label: "Lowest score first", compare: byScore },
  changed: { label: "Latest change first", compare: (a, b) => b.changed - a.changed },
  moved: { label: "Most moved first", compare: (a, b) => movedBy(b) - movedBy(a) },
};

/** The photos of one choice and order. `show` is of SHOW, or "clip NAME" for the frames of a video. */
export function arranged(queries, { show, sort }, facts) {
  const clip = show.startsWith("clip ") && show.slice(5);
  const keep = clip ? ({ photo }) => facts.photos[photo].clip === clip : SHOW[show].keep;
  const kept = photosOf(queries).filter((entry) => keep(entry, facts));
  return SORT[sort].compare ? kept.toSorted(SORT[sort].compare) : kept;
}

/** The photo to correct after this one: of those with poses that nobody accepted, the next in order of score. */
export function nextToCorrect(queries, photo = null) {
  const open = ({ photo: id, state, score }) => id === photo || (state !== "accepted" && score !== null);
  const left = photosOf(queries).filter(open).toSorted(byScore);
  const here = left.findIndex((entry) => entry.photo === photo);
  const next = left[(here + 1) % Math.max(left.length, 1)];
  return next && next.photo !== photo ? next : null;
}
