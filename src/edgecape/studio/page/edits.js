// Everything a person can do to the project: functions from one document to the next, nothing changed in place.

const put = (list, index, value) => list.map((item, n) => (n === index ? value : item));
const drop = (list, index) => list.filter((_, n) => n !== index);
const at = (list, index, change) => list.map((item, n) => (n === index ? { ...item, ...change(item) } : item));
const order = ([i, j]) => (i < j ? [i, j] : [j, i]);

// --- keypoints and skeleton ---------------------------------------------------------------------------------------

export function freshName(names) {
  for (let n = names.length + 1; ; n++) if (!names.includes(`point ${n}`)) return `point ${n}`;
}

/** One more keypoint, placed on one shot. Poses found so far lack it: they wait to be found again, corrections kept. */
export function addPoint(doc, shot, place) {
  const queries = doc.queries.map((query) => {
    if (!query.pose) return query;
    const { keypoints, scores, moved } = query.pose;
    const kept = query.state === "accepted" ? moved.map(() => true) : moved;
    const pose = { keypoints: [...keypoints, null], scores: [...scores, 0], moved: [...kept, false] };
    return { ...query, pose, state: "waiting" };
  });
  return {
    ...doc,
    names: [...doc.names, freshName(doc.names)],
    shots: doc.shots.map((item, n) => ({
      ...item,
      points: [...item.points, n === shot ? { ...place, hidden: false } : null],
    })),
    queries,
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
  const pose = ({ keypoints, scores, moved }) => ({
    keypoints: pick(keypoints),
    scores: pick(scores),
    moved: pick(moved),
  });
  const placed = new Map(kept.map((old, now) => [old, now]));
  return {
    ...doc,
    names: pick(doc.names),
    skeleton: doc.skeleton
      .filter((edge) => edge.every((k) => placed.has(k)))
      .map((edge) => order(edge.map((k) => placed.get(k)))),
    shots: doc.shots.map((shot) => ({ ...shot, points: pick(shot.points) })),
    queries: doc.queries.map((query) => {
      if (!query.pose) return query;
      return kept.length ? { ...query, pose: pose(query.pose) } : { ...query, pose: null, state: "waiting" };
    }),
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

const waiting = (photo, box = null) => ({ photo, box, pose: null, state: "waiting", error: null });

export function addQueries(doc, ids) {
  const added = ids.filter((id) => !doc.queries.some((query) => query.photo === id));
  return { ...doc, queries: [...doc.queries, ...added.map((id) => waiting(id))] };
}

export function removeQuery(doc, index) {
  return { ...doc, queries: drop(doc.queries, index) };
}

export function boxQuery(doc, index, box) {
  return { ...doc, queries: put(doc.queries, index, waiting(doc.queries[index].photo, box)) };
}

/** A person puts a found keypoint right, or one that was not found where it is. */
export function moveFound(doc, index, k, { x, y }) {
  const move = ({ pose }) => ({
    pose: { ...pose, keypoints: put(pose.keypoints, k, [x, y]), moved: put(pose.moved, k, true) },
  });
  return { ...doc, queries: at(doc.queries, index, move) };
}

export function acceptQuery(doc, index, accepted) {
  return { ...doc, queries: at(doc.queries, index, () => ({ state: accepted ? "accepted" : "predicted" })) };
}

/** A corrected photo becomes one more shot of the support. */
export function useAsShot(doc, index, photo) {
  const { pose, box } = doc.queries[index];
  const limit = (value, most) => Math.min(Math.max(value, 0), most);
  const point = ([x, y]) => ({ x: limit(x, photo.width), y: limit(y, photo.height), hidden: false });
  const points = pose.keypoints.map((place) => place && point(place));
  const shots = [...doc.shots.filter((shot) => shot.photo !== photo.id), { photo: photo.id, points, box }];
  return acceptQuery({ ...doc, shots }, index, true);
}

// --- what the model says ------------------------------------------------------------------------------------------

export const sameQuery = (a, b) => a.photo === b.photo && JSON.stringify(a.box) === JSON.stringify(b.box);

const where = (doc, query, change) => ({
  ...doc,
  queries: doc.queries.map((item) =>
    sameQuery(item, query) && item.state !== "accepted" ? { ...item, ...change(item) } : item,
  ),
});

/** A pose was found for keypoints of these names; those that a person moved stay. */
export function found(doc, query, names, pose) {
  if (names.length !== doc.names.length || names.some((name, k) => name !== doc.names[k])) return doc;
  return where(doc, query, ({ pose: old }) => {
    const moved = old?.moved ?? pose.keypoints.map(() => false);
    const keypoints = pose.keypoints.map((point, k) => (moved[k] ? old.keypoints[k] : point));
    return { pose: { keypoints, scores: pose.scores, moved }, state: "predicted", error: null };
  });
}

export function notFound(doc, query, error) {
  return where(doc, query, () => ({ state: "failed", error }));
}

export function findAgain(doc, query) {
  return where(doc, query, () => ({ state: "waiting", error: null }));
}

// --- questions ----------------------------------------------------------------------------------------------------

/** Numbers of the keypoints that a shot lacks. */
export function missing(doc, shot) {
  return [...doc.names.keys()].filter((k) => !doc.shots[shot]?.points[k]);
}

/** Numbers of the keypoints that are on no shot: the model needs each on one at least. */
export function unplaced(doc) {
  return [...doc.names.keys()].filter((k) => !doc.shots.some((shot) => shot.points[k]));
}

/** Does the document say enough to search other photos? */
export function canFind(doc) {
  return doc.names.length > 0 && (doc.shots.length ? !unplaced(doc).length : Boolean(doc.prompt));
}
