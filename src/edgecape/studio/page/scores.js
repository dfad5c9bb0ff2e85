// The keypoints of an open photo with their scores, in a panel: choose one to move it, place it or say it is not there.

import { compare } from "./changes.js";
import { h, pool, roving, s, set } from "./dom.js";
import { colour } from "./palette.js";

/** choose(k) is told which keypoint was picked. */
export function createScores(store, choose) {
  const list = h("ol", { class: "scores" });
  const rows = () => [...list.children].map(({ row }) => row);
  roving(list, rows);

  const update = pool(
    list,
    (k) => {
      const bar = h("span", { class: "bar" });
      const [name, number] = [h("span", { class: "name" }), h("span", { class: "value" })];
      const dot = s("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, s("circle", { cx: 8, cy: 8, r: 5.5 }));
      const track = h("span", { class: "track" }, bar);
      const row = h("button", { type: "button", onclick: () => choose(k) }, dot, name, track, number);
      return Object.assign(h("li", {}, row), { row, bar, name, number, dot });
    },
    (item, { name, place, score, moved, change }, k) => {
      const short = !place ? (moved ? "not there" : "not found") : moved ? "moved" : score.toFixed(2);
      const long = !place
        ? moved
          ? "not on this photo, choose to place it"
          : "not found, choose to place it"
        : moved
          ? "moved by you"
          : `score ${score.toFixed(2)}`;
      const far = change > 0.005 ? `, moved ${Math.round(100 * change)} % by the last search` : "";
      const certainty = !place ? 0 : moved ? 1 : score;
      set(item.dot.firstChild, { fill: place ? colour(k) : "none", stroke: place ? null : colour(k) });
      item.name.textContent = name;
      item.number.textContent = short;
      item.bar.style.width = `${100 * certainty}%`;
      set(item.row, {
        class: [store.look.selected === k && "selected", moved && "moved", !place && "missing"]
          .filter(Boolean)
          .join(" "),
        "--score": certainty,
        "aria-label": `${name}, ${long}${far}`,
        title: place ? far.slice(2) || null : "Choose it, then click where it is.",
        tabindex: k === (store.look.selected ?? 0) ? "0" : "-1",
      });
    },
  );

  return {
    element: list,
    render(query) {
      const { doc } = store;
      const { pose, earlier } = query;
      if (!pose) return update([]);
      const changes = earlier ? compare(earlier, pose).moved : [];
      update(
        doc.names.map((name, k) => ({
          name,
          place: pose.keypoints[k],
          score: pose.scores[k],
          moved: pose.moved[k],
          change: changes[k] ?? 0,
        })),
      );
    },
  };
}
