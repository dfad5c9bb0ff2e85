// Where names go beside their keypoints, so that no two overlap and none hides a keypoint. Screen pixels.

const HEIGHT = 17;
const DOT = 8; // radius of a keypoint
// beside the keypoint, in order of preference: [how the text is anchored, x, y of its baseline]
const SIDES = [
  ["start", 13, -9],
  ["start", 14, 4.5],
  ["start", 13, 18],
  ["end", -13, -9],
  ["end", -14, 4.5],
  ["end", -13, 18],
  ["middle", 0, -15],
  ["middle", 0, 25],
];

const pen = document.createElement("canvas").getContext("2d");
const widths = new Map();

function widthOf(text) {
  if (!widths.has(text)) {
    pen.font = "600 13px system-ui, sans-serif";
    widths.set(text, pen.measureText(text).width + 4);
  }
  return widths.get(text);
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/**
 * A side for each label, or null where there is no room: [{ anchor, x, y }] in the order given. labels: [{ x, y, text,
 * first }] or null; those that come `first` (chosen ones) are shown whatever is in the way. dots: places to keep free.
 */
export function placeLabels(labels, dots, stage) {
  const taken = dots.map(({ x, y }) => ({ left: x - DOT, right: x + DOT, top: y - DOT, bottom: y + DOT }));
  const frame = (label, [anchor, dx, dy]) => {
    const width = widthOf(label.text);
    const left = label.x + dx - { start: 0, middle: width / 2, end: width }[anchor];
    return { left, right: left + width, top: label.y + dy - HEIGHT + 4, bottom: label.y + dy + 4 };
  };
  const inside = ({ left, right, top, bottom }) =>
    left >= 0 && top >= 0 && right <= stage.width && bottom <= stage.height;
  const sides = labels.map(() => null);
  const order = [...labels.keys()].filter((n) => labels[n]).sort((a, b) => labels[b].first - labels[a].first);
  for (const n of order) {
    const label = labels[n];
    const free = (side) => inside(frame(label, side)) && !taken.some((other) => overlap(other, frame(label, side)));
    const side =
      SIDES.find(free) ?? (label.first ? (SIDES.find((one) => inside(frame(label, one))) ?? SIDES[0]) : null);
    if (!side) continue;
    taken.push(frame(label, side));
    sides[n] = { anchor: side[0], x: side[1], y: side[2] };
  }
  return sides;
}
