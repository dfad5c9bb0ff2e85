// Two poses of one object, before and after another search: how far keypoints moved, which fell onto each other.

const TOGETHER = 0.03; // of the object's size: nearer than this, two keypoints are at one place
const APART = 2 * TOGETHER; // and further than this, they were at two

const distance = ([x, y], [u, v]) => Math.hypot(x - u, y - v);

/** The longer side of the smallest box around the keypoints that are there. */
export function sizeOf({ keypoints }) {
  const there = keypoints.filter(Boolean);
  const spans = [0, 1].map((axis) => {
    const along = there.map((place) => place[axis]);
    return Math.max(...along) - Math.min(...along);
  });
  return Math.max(...spans, 1);
}

/**
 * { moved, mean, collapsed }: how far each keypoint moved and their mean, as shares of the object's size before (null
 * where it is on one of them only), and pairs that were apart and are together now.
 */
export function compare(before, after) {
  const size = sizeOf(before);
  const moved = after.keypoints.map((place, k) =>
    place && before.keypoints[k] ? distance(place, before.keypoints[k]) / size : null,
  );
  const known = moved.filter((share) => share !== null);
  const collapsed = [];
  for (let i = 0; i < moved.length; i++) {
    for (let j = i + 1; j < moved.length; j++) {
      if (moved[i] === null || moved[j] === null) continue;
      const were = distance(before.keypoints[i], before.keypoints[j]) / size;
      const are = distance(after.keypoints[i], after.keypoints[j]) / size;
      if (were > APART && are < TOGETHER) collapsed.push([i, j]);
    }
  }
  return { moved, mean: known.reduce((sum, share) => sum + share, 0) / Math.max(known.length, 1), collapsed };
}

/** Of all queries that have a pose before and a pose now: { photos, mean, collapsed, before, after } (scores). */
export function summary(queries) {
  const both = queries.filter((query) => query.earlier && query.pose && query.state !== "accepted");
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / Math.max(values.length, 1);
  const changes = both.map((query) => compare(query.earlier, query.pose));
  return {
    photos: both.length,
    mean: mean(changes.map((change) => change.mean)),
    collapsed: changes.filter((change) => change.collapsed.length).length,
    before: mean(both.flatMap(({ earlier }) => earlier.scores)),
    after: mean(both.flatMap(({ pose }) => pose.scores)),
  };
}
