// Poses over a small picture. What is below the fade threshold is decided by style.css, from the --score of each part.

import { s, set } from "./dom.js";
import { colour } from "./palette.js";

/** Keypoints and edges of poses in photo pixels, as large as suits the picture. */
export function drawPoses(overlay, photo, poses, skeleton) {
  set(overlay, { viewBox: `0 0 ${photo.width} ${photo.height}` });
  const size = Math.max(photo.width, photo.height) / 42;
  overlay.replaceChildren(...poses.flatMap((pose) => parts(pose, skeleton, size)));
}

function parts(pose, skeleton, size) {
  const score = (k) => (pose.moved[k] ? 1 : pose.scores[k]);
  const whole = skeleton.filter((edge) => edge.every((k) => pose.keypoints[k]));
  const lines = whole.map(([i, j]) => {
    const [[x1, y1], [x2, y2]] = [pose.keypoints[i], pose.keypoints[j]];
    return s("line", { x1, y1, x2, y2, "stroke-width": size / 3, "--score": Math.min(score(i), score(j)) });
  });
  const there = [...pose.keypoints.keys()].filter((k) => pose.keypoints[k]);
  const dots = there.map((k) => {
    const [cx, cy] = pose.keypoints[k];
    return s("circle", { cx, cy, r: size * 0.8, "stroke-width": size / 3.5, fill: colour(k), "--score": score(k) });
  });
  return [...lines, ...dots];
}
