// One photo in the gallery: the picture, what was found on it, and whether it is accepted.

import * as api from "./api.js";
import { movedBy } from "./order.js";
import { h, icon, iconButton, set } from "./dom.js";
import { drawPoses } from "./pose.js";

/** actions: { open(photo), accept(photo, event), again(photo), remove(photo) }; `show` tells which photo it is of. */
export function createCard(actions) {
  let entry = null;
  let seen = [];
  let faded = null; // the threshold that the poses were drawn with
  const image = h("img", { alt: "", draggable: "false", decoding: "async" });
  const overlay = h("canvas", { class: "pose", "aria-hidden": "true" });
  const objects = h("span", { class: "tag" });
  const open = h(
    "button",
    { type: "button", class: "open", tabindex: "-1", onclick: (event) => actions.open(entry.photo, event) },
    image,
    overlay,
    objects,
  );
  const [name, score] = [h("span", { class: "name" }), h("span", { class: "score" })];
  const aside = { tabindex: "-1" }; // reached by keys: the card is one stop
  const accept = iconButton("tick", "", (event) => actions.accept(entry.photo, event), { class: "accept", ...aside });
  const away = iconButton("close", "", () => actions.remove(entry.photo), { class: "away", ...aside });
  const again = h(
    "button",
    { type: "button", class: "text", onclick: () => actions.again(entry.photo), ...aside },
    icon("again"),
    "Try again",
  );
  const problem = h("p", { class: "problem" });
  const trouble = h("div", { class: "trouble" }, problem, again);
  const element = h(
    "div",
    { class: "card", role: "listitem" },
    open,
    trouble,
    away,
    h("div", { class: "foot" }, name, score, accept),
  );

  /** facts: { photo, skeleton, searched, outdated, position, number, threshold }. */
  function show(next, facts) {
    entry = next;
    set(element, { "aria-posinset": facts.position + 1, "aria-setsize": facts.number, "data-photo": next.photo });
    const { photo, skeleton, searched, outdated, threshold } = facts;
    const now = [photo, skeleton, searched, outdated, ...next.queries];
    const same = now.length === seen.length && now.every((part, n) => part === seen[n]);
    if (same && threshold === faded) return; // most cards do not change
    [seen, faded] = [now, threshold];
    const poses = next.queries.map(({ pose }) => pose).filter(Boolean);
    drawPoses(overlay, photo, poses, skeleton, threshold);
    if (same) return;
    const moved = movedBy(next);
    const words = searched
      ? "searching"
      : next.score === null
        ? next.state
        : `${next.state === "accepted" ? "accepted, " : ""}score ${next.score.toFixed(2)}`;
    set(element, {
      class: ["card", next.state, poses.length ? "found" : "bare", outdated && "outdated"].filter(Boolean).join(" "),
    });
    set(image, { src: api.photoUrl(photo.id, true) });
    set(open, { "aria-label": `${photo.name}, ${words}. Open` });
    set(name, { textContent: photo.name, title: photo.name });
    score.textContent = searched ? "searching" : next.score === null ? next.state : next.score.toFixed(2);
    score.title = next.score === null ? "" : "Mean score of the keypoints that were found";
    objects.textContent = [
      next.queries.length > 1 && `${next.queries.length} objects`,
      outdated && "other marks",
      moved >= 0.005 && `moved ${Math.round(100 * moved)} %`,
    ]
      .filter(Boolean)
      .join(" · ");
    set(accept, {
      hidden: !poses.length,
      "aria-pressed": String(next.state === "accepted"),
      "aria-label": `Accept ${photo.name}`,
      title: "Accept (Shift: all from the last one to this)",
    });
    set(away, { "aria-label": `Remove ${photo.name}`, title: `Remove ${photo.name}` });
    problem.textContent = next.queries.find(({ error }) => error)?.error ?? "";
    trouble.hidden = next.state !== "failed";
  }

  return { element, open, show };
}
