// The predicted graph as a table: one cell per pair of keypoints, read out when pointed at or reached by arrow keys.

import { KINDS } from "./compare.js";
import { h, pool, set } from "./dom.js";
import { colour } from "./palette.js";

const ARROWS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

export function createMatrix() {
  const head = h("tr");
  const rows = h("tbody");
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const table = h(
    "table",
    { class: "matrix", "aria-label": "Weight of each edge, relative to the strongest" },
    h("thead", {}, head),
    rows,
  );
  const element = h("div", { class: "matrix-view" }, h("div", { class: "scroll" }, table), readout);
  const rest = "Point at a cell to read its edge.";
  let cells = {}; // "i-j" → what to say
  let seen = []; // what it was drawn from
  let current = "0-1"; // the one cell in the tab order

  const swatch = () => h("span", { class: "swatch" });
  const updateHead = pool(
    head,
    () => h("th", { scope: "col" }),
    (cell, name, n) => {
      if (!cell.firstChild) cell.append(swatch(), h("span", { class: "sr" }));
      cell.lastChild.textContent = n ? name : "Keypoint";
      if (n) cell.firstChild.style.background = colour(n - 1);
      set(cell, { title: n ? name : null });
    },
  );
  const updateRows = pool(
    rows,
    () => {
      const row = h("tr", {}, h("th", { scope: "row" }, swatch(), h("span")));
      row.update = pool(row, () => h("td"), updateCell);
      return row;
    },
    (row, { name, values }, i) => {
      const [dot, text] = row.firstChild.children;
      dot.style.background = colour(i);
      set(row.firstChild, { title: name });
      text.textContent = name;
      row.update(values);
    },
  );

  function updateCell(cell, { i, j, weight, kind, text }) {
    const key = `${i}-${j}`;
    const itself = i === j;
    cell.style.setProperty("--weight", itself ? 0 : weight);
    set(cell, {
      class: itself ? "itself" : kind,
      "data-cell": key,
      tabindex: itself ? null : key === current ? "0" : "-1",
      "aria-label": text,
    });
    cells[key] = text;
  }

  const tell = (event) => {
    const key = event.target.closest?.("td")?.dataset.cell;
    readout.textContent = (key && cells[key]) || rest;
  };
  table.addEventListener("pointerover", tell);
  table.addEventListener("focusin", tell);
  table.addEventListener("pointerleave", () => (readout.textContent = rest));
  table.addEventListener("keydown", (event) => {
    const step = ARROWS[event.key];
    const key = event.target.dataset.cell;
    if (!step || !key) return;
    event.preventDefault();
    let [i, j] = key.split("-").map(Number);
    do [i, j] = [i + step[0], j + step[1]];
    while (i === j);
    const cell = table.querySelector(`[data-cell="${i}-${j}"]`);
    if (!cell) return;
    event.target.tabIndex = -1;
    current = `${i}-${j}`;
    cell.tabIndex = 0;
    cell.focus();
  });

  return {
    element,
    render({ names, skeleton, settings }, weights, edges) {
      const now = [names, skeleton, settings.graphThreshold, weights];
      if (now.every((part, n) => part === seen[n])) return; // it may have thousands of cells
      seen = now;
      cells = {};
      const strongest = Math.max(...weights.flat(), 1e-9);
      const kinds = new Map(
        edges.flatMap(({ i, j, kind }) => [
          [`${i}-${j}`, kind],
          [`${j}-${i}`, kind],
        ]),
      );
      const values = (i) =>
        names.map((_, j) => {
          const [weight, kind] = [weights[i][j] / strongest, kinds.get(`${i}-${j}`) ?? "below"];
          const text =
            i === j
              ? names[i]
              : `${names[i]} – ${names[j]}: ${weight.toFixed(2)}${KINDS[kind] ? `, ${KINDS[kind]}` : ""}`;
          return { i, j, weight, kind, text };
        });
      updateHead(["", ...names]);
      updateRows(names.map((name, i) => ({ name, values: values(i) })));
      if (!readout.textContent) readout.textContent = rest;
    },
  };
}
