// A colour per keypoint, the same on photos, in lists and in the graph: hues in steps of the golden ratio, as in
// edgecape.drawing, so that neighbours in the list differ.

export function colour(k) {
  const hue = (0.02 + k * 0.618034) % 1;
  const channel = (n) => {
    const step = (n + hue * 6) % 6;
    return Math.trunc(255 * (1 - 0.85 * Math.max(0, Math.min(step, 4 - step, 1))));
  };
  return `rgb(${channel(5)} ${channel(3)} ${channel(1)})`;
}
