// Poses over a small picture, on a canvas: of hundreds of photos, dots and lines are not elements of the page.

import { colour } from "./palette.js";

const SIDE = 320; // pixels of the longer side on a plain screen, as many as the picture below has
const [CLEAR, FADED] = [0.9, 0.25]; // opacity above and below the threshold of scores

/** Keypoints and edges of poses in photo pixels, as large as suits the picture; style.css fits the canvas over it. */
export function drawPoses(canvas, photo, poses, skeleton, threshold, side = SIDE) {
  const scale = (side * Math.min(devicePixelRatio, 2)) / Math.max(photo.width, photo.height);
  const [width, height] = [Math.round(photo.width * scale), Math.round(photo.height * scale)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, photo.width, photo.height);
  for (const pose of poses) draw(pen, pose, skeleton, threshold, Math.max(photo.width, photo.height) / 42);
}

function draw(pen, { keypoints, scores, moved }, skeleton, threshold, size) {
  const opacity = (...numbers) => (numbers.every((k) => moved[k] || scores[k] >= threshold) ? CLEAR : FADED);
  pen.lineCap = "round";
  pen.lineWidth = size / 3;
  pen.strokeStyle = "#fff";
  for (const [i, j] of skeleton) {
    if (!keypoints[i] || !keypoints[j]) continue;
    pen.globalAlpha = opacity(i, j);
    pen.beginPath();
    pen.moveTo(...keypoints[i]);
    pen.lineTo(...keypoints[j]);
    pen.stroke();
  }
  keypoints.forEach((place, k) => {
    if (!place) return;
    pen.globalAlpha = opacity(k);
    for (const [radius, fill] of [
      [size * 0.94, "rgb(20 20 20 / 0.85)"],
      [size * 0.8, colour(k)],
    ]) {
      pen.beginPath();
      pen.arc(...place, radius, 0, 2 * Math.PI);
      pen.fillStyle = fill;
      pen.fill();
    }
  });
}
