// The frames of the open photo's video, to scrub through: a slider over marks that tell which frames are accepted.

import { h, s, set } from "./dom.js";
import { scoreOf } from "./order.js";

/** open(index) is told which query to look at. */
export function createTimeline(store, open) {
  const slider = h("input", { type: "range", min: "0", step: "1", "aria-label": "Frame of the video" });
  const words = h("output");
  const marks = s("svg", { class: "ticks", preserveAspectRatio: "none", "aria-hidden": "true" });
  const element = h("div", { class: "timeline" }, h("div", { class: "scrub" }, marks, slider), words);
  let frames = [];
  let drawn = null;
  slider.oninput = () => open(frames[Number(slider.value)].index);

  const time = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(2).padStart(5, "0")}`;

  return {
    element,
    render() {
      const { doc, look, photos } = store;
      const { clip } = photos[doc.queries[look.query].photo];
      element.hidden = !clip;
      if (!clip) return;
      if (drawn !== doc.queries) {
        drawn = doc.queries;
        const seen = new Set();
        frames = [...doc.queries.entries()]
          .map(([index, query]) => ({ index, query, photo: photos[query.photo] }))
          .filter(({ photo }) => photo.clip === clip && !seen.has(photo.id) && seen.add(photo.id))
          .toSorted((a, b) => a.photo.frame - b.photo.frame);
        set(marks, { viewBox: `0 0 ${frames.length} 1` });
        marks.replaceChildren(
          ...frames.map(({ query }, n) => {
            const shot = doc.shots.some(({ photo }) => photo === query.photo);
            const kind = shot ? "shot" : query.state;
            const height = shot || query.state === "accepted" ? 1 : (scoreOf(query) ?? 0.05);
            return s("rect", { x: n + 0.08, width: 0.84, y: 1 - height, height, class: kind });
          }),
        );
        set(slider, { max: String(Math.max(frames.length - 1, 0)) });
      }
      const at = frames.findIndex(({ photo }) => photo.id === doc.queries[look.query].photo);
      const { frame, time: seconds } = frames[at].photo;
      set(slider, { value: String(at), "aria-valuetext": `frame ${frame}, ${time(seconds ?? 0)}` });
      words.textContent = `${clip} · frame ${frame} · ${time(seconds ?? 0)}`;
    },
  };
}
