// Everything a person can do to the project: functions from one document to the next, nothing changed in place.

const put = (list, index, value) => list.map((item, n) => (n === index ? value : item));
const drop = (list, index) => list.filter((_, n) => n !== index);
const at = (list, index, change) => list.map((item, n) => (n === index ? { ...item, ...change(item) } : item));
/** What a pose tells of each keypoint, changed: change(list, what it says of a keypoint that is not there). */
const lists = ({ keypoints, scores, moved }, change) => ({
  keypoints: change(keypoints, null),
  scores: change(scores, 0),
  moved: change(moved, false),
});
const order = ([i, j]) => (i < j ? [i, j] : [j, i]);

// --- keypoints and skeleton ---------------------------------------------------------------------------------------

export function freshName(names) {
  for (let n = names.length + 1; ; n++) if (!names.includes(`point ${n}`)) return `point ${n}`;
}

/** One more keypoint, placed on one shot. Poses there are stay as they are, and do not have it yet. */
export function addPoint(doc, shot, place) {
  const longer = (pose) => pose && { ...pose, ...lists(pose, (list, none) => [...list, none]) };
  return {
    ...doc,
    names: [...doc.names, freshName(doc.names)],
    shots: doc.shots.map((item, n) => ({
      ...item,
      points: [...item.points, n === shot ? { ...place, hidden: false } : null],
    })),
    queries: doc.queries.map((query) => ({ ...query, pose: longer(query.pose), earlier: longer(query.earlier) })),
  };
}

/** Keypoints, skeleton and places of a template (shares of a box), on a shot of a project that has no keypoints yet. */
export function addTemplate(doc, shot, { names, skeleton, places }, [left, top, width, height]) {
  const points = places.map(([x, y]) => ({ x: left + x * width, y: top + y * height, hidden: false }));
  const none = names.map(() => null);
  return {
    ...doc,
    names,
    skeleton: skeleton.map(order),
    shots: doc.shots.map((item, n) => ({ ...item, points: n === shot ? points : none })),
  };
}

/** Put a keypoint somewhere on a shot, whether it was there before or not. */
export function placePoint(doc, shot, k, place) {
  const placed = (item) => ({ points: put(item.points, k, { hidden: item.points[k]?.hidden ?? false, ...place }) });
  return { ...doc, shots: at(doc.shots, shot, placed) };
}

/** Take a keypoint off one shot; the others keep it. */
export function liftPoint(doc, shot, k) {
  return { ...doc, shots: at(doc.shots, shot, (item) => ({ points: put(item.points, k, null) })) };
}

export function hidePoint(doc, shot, k, hidden) {
  return {
    ...doc,
    shots: at(doc.shots, shot, (item) => ({ points: put(item.points, k, { ...item.points[k], hidden }) })),
  };
}

export function renamePoint(doc, k, name) {
  return { ...doc, names: put(doc.names, k, name) };
}

/** The keypoints in another order, or fewer of them: `kept` lists old numbers in the new order. */
function choosePoints(doc, kept) {
  const pick = (list) => kept.map((k) => list[k]);
  const chosen = (pose) => (pose && kept.length ? { ...pose, ...lists(pose, pick) } : null);
  const placed = new Map(kept.map((old, now) => [old, now]));
  return {
    ...doc,
    names: pick(doc.names),
    skeleton: doc.skeleton
      .filter((edge) => edge.every((k) => placed.has(k)))
      .map((edge) => order(edge.map((k) => placed.get(k)))),
    shots: doc.shots.map((shot) => ({ ...shot, points: pick(shot.points) })),
    queries: doc.queries.map((query) => ({
      ...query,
      pose: chosen(query.pose),
      earlier: chosen(query.earlier),
      state: kept.length ? query.state : "waiting",
    })),
  };
}

export function deletePoint(doc, k) {
  return choosePoints(doc, drop([...doc.names.keys()], k));
}

export function reorderPoint(doc, from, to) {
  const numbers = drop([...doc.names.keys()], from);
  numbers.splice(to, 0, from);
  return choosePoints(doc, numbers);
}

export function hasEdge(doc, i, j) {
  const [a, b] = order([i, j]);
  return doc.skeleton.some(([p, q]) => p === a && q === b);
}

export function addEdge(doc, i, j) {
  return i === j || hasEdge(doc, i, j) ? doc : { ...doc, skeleton: [...doc.skeleton, order([i, j])] };
}

export function removeEdge(doc, i, j) {
  const [a, b] = order([i, j]);
  return { ...doc, skeleton: doc.skeleton.filter(([p, q]) => p !== a || q !== b) };
}

// --- support photos -----------------------------------------------------------------------------------------------

export function addShots(doc, ids) {
  const added = ids.filter((id) => !doc.shots.some((shot) => shot.photo === id));
  return {
    ...doc,
    shots: [...doc.shots, ...added.map((photo) => ({ photo, points: doc.names.map(() => null), box: null }))],
  };
}

export function removeShot(doc, shot) {
  return { ...doc, shots: drop(doc.shots, shot) };
}

export function boxShot(doc, shot, box) {
  return { ...doc, shots: at(doc.shots, shot, () => ({ box })) };
}

/** Keypoints, skeleton and photos from an example or a file, in place of those of the project. */
export function startFrom(doc, { names, skeleton, shots, queries = [], prompt = null, prior = "mine" }) {
  return { ...doc, names, skeleton: skeleton ?? [], prior: skeleton ? prior : "full", prompt, shots, queries };
}

// --- photos to search ---------------------------------------------------------------------------------------------

const waiting = (photo, box = null) => ({
  photo,
  box,
  pose: null,
  state: "waiting",
  error: null,
  foundWith: null,
  earlier: null,
  changed: null,
});

export const sameQuery = (a, b) => a.photo === b.photo && String(a.box) === String(b.box);

export function addQueries(doc, ids) {
  const known = new Set(doc.queries.map(({ photo }) => photo));
  return { ...doc, queries: [...doc.queries, ...ids.filter((id) => !known.has(id)).map((id) => waiting(id))] };
}

/** Further objects on a photo that is searched already, after those it has; boxes that are there stay as they are. */
export function addObjects(doc, photo, boxes) {
  const added = boxes
    .map((box) => waiting(photo, box))
    .filter((query) => !doc.queries.some((other) => sameQuery(query, other)));
  const last = doc.queries.findLastIndex((query) => query.photo === photo);
  return { ...doc, queries: doc.queries.toSpliced(last + 1, 0, ...added) };
}

export function removeQuery(doc, index) {
  return { ...doc, queries: drop(doc.queries, index) };
}

export function removePhoto(doc, photo) {
  return { ...doc, queries: doc.queries.filter((query) => query.photo !== photo) };
}

/** Another part of the photo is to be searched; until that is done, the pose there is stays. */
export function boxQuery(doc, index, box) {
  const query = doc.queries[index];
  const next = { ...query, box, state: "waiting", error: null, foundWith: null };
  const taken = doc.queries.some((other) => other !== query && sameQuery(other, next));
  return taken ? doc : { ...doc, queries: put(doc.queries, index, next) };
}

const posed = (doc, index, change) => ({
  ...doc,
  queries: at(doc.queries, index, ({ pose }) => ({ pose: { ...pose, ...change(pose) }, changed: Date.now() })),
});

/** A person puts a found keypoint right, or one that was not found where it is. */
export function moveFound(doc, index, k, { x, y }) {
  return posed(doc, index, ({ keypoints, moved }) => ({
    keypoints: put(keypoints, k, [x, y]),
    moved: put(moved, k, true),
  }));
}

/** A person says that the photo does not show a keypoint. */
export function hideFound(doc, index, k) {
  return posed(doc, index, ({ keypoints, moved }) => ({
    keypoints: put(keypoints, k, null),
    moved: put(moved, k, true),
  }));
}

/** The next search may put everything elsewhere. */
export function forgetCorrections(doc, index) {
  return posed(doc, index, ({ moved }) => ({ moved: moved.map(() => false) }));
}

/** Accept poses, or take that back; what has no pose cannot be accepted. */
export function acceptQueries(doc, indices, accepted) {
  const chosen = new Set(indices);
  const state = accepted ? "accepted" : "predicted";
  const accept = (query, n) =>
    chosen.has(n) && query.pose && query.state !== state
      ? { ...query, state, error: null, changed: Date.now() }
      : query;
  return { ...doc, queries: doc.queries.map(accept) };
}

/** A corrected photo becomes one more shot of the support. */
export function useAsShot(doc, index, photo) {
  const { pose, box } = doc.queries[index];
  const limit = (value, most) => Math.min(Math.max(value, 0), most);
  const point = ([x, y]) => ({ x: limit(x, photo.width), y: limit(y, photo.height), hidden: false });
  const points = pose.keypoints.map((place) => place && point(place));
  const shots = [...doc.shots.filter((shot) => shot.photo !== photo.id), { photo: photo.id, points, box }];
  return acceptQueries({ ...doc, shots }, [index], true);
}

// --- what the model says ------------------------------------------------------------------------------------------

/** An edit of the queries alone. Documents of one past share them: each list is changed once. */
function ofQueries(change) {
  const done = new Map();
  return (doc) => {
    if (!done.has(doc.queries)) done.set(doc.queries, change(doc.queries, doc));
    return { ...doc, queries: done.get(doc.queries) };
  };
}

const where = (query, change) =>
  ofQueries((queries) => queries.map((item) => (sameQuery(item, query) ? { ...item, ...change(item) } : item)));

/**
 * A pose was found for keypoints of these names. What a person moved stays, and of an accepted pose everything that is
 * there; the pose before is kept beside it.
 */
export function found(query, names, pose, foundWith) {
  const edit = where(query, ({ pose: old, state, earlier }) => {
    const accepted = state === "accepted";
    const stays = pose.keypoints.map((_, k) => old && (old.moved[k] || (accepted && old.keypoints[k])));
    const next = {
      keypoints: pose.keypoints.map((point, k) => (stays[k] ? old.keypoints[k] : point)),
      scores: pose.scores.map((score, k) => (stays[k] ? old.scores[k] : score)),
      moved: stays.map((stay, k) => Boolean(stay && old.moved[k])),
      effort: stays.every(Boolean) ? old.effort : pose.effort,
    };
    const other = old && String(old.keypoints) !== String(next.keypoints);
    return {
      pose: next,
      state: accepted ? "accepted" : "predicted",
      error: null,
      foundWith,
      earlier: other && !accepted ? old : earlier,
      changed: other || !old ? Date.now() : query.changed,
    };
  });
  const fits = (doc) => names.length === doc.names.length && names.every((name, k) => name === doc.names[k]);
  return (doc) => (fits(doc) ? edit(doc) : doc);
}

/** A search failed; a pose that was there is still there. */
export function notFound(query, error) {
  return where(query, ({ state }) => (state === "accepted" ? {} : { state: "failed", error }));
}

/** The poses of the last search are as wanted: those before it are not needed any more. */
export function keepFound(doc) {
  return { ...doc, queries: doc.queries.map((query) => ({ ...query, earlier: null })) };
}

/** The poses before the last search, in place of those it found; `photo`: and without the shot of that photo. */
export function takeBack(doc, photo = null) {
  const back = (query) =>
    query.earlier && query.state !== "accepted"
      ? { ...query, pose: query.earlier, earlier: null, foundWith: null, state: "predicted", changed: Date.now() }
      : { ...query, earlier: null };
  return { ...doc, shots: doc.shots.filter((shot) => shot.photo !== photo), queries: doc.queries.map(back) };
}

// --- questions ----------------------------------------------------------------------------------------------------

/** Numbers of the keypoints that a shot lacks. */
export function missing(doc, shot) {
  return [...doc.names.keys()].filter((k) => !doc.shots[shot]?.points[k]);
}

/** Numbers of the keypoints that are on no shot: the model does not look for them. */
export function unplaced(doc) {
  return [...doc.names.keys()].filter((k) => !doc.shots.some((shot) => shot.points[k]));
}

/** The shots that say something. */
export const markedShots = ({ shots }) => shots.filter(({ points }) => points.some(Boolean));

/** Does the document say enough to search other photos? */
export function canFind(doc) {
  return doc.names.length > 0 && (doc.shots.length ? markedShots(doc).length > 0 : Boolean(doc.prompt));
}
