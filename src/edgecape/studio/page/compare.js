// The predicted graph against the skeleton that a person drew.

export const KINDS = {
  kept: "yours, kept",
  new: "new",
  weakened: "yours, weakened",
};

/**
 * Edges of the predicted graph, weights relative to the strongest: kept and new ones at or above the threshold, and
 * those of the person's skeleton that fell below it.
 */
export function compareGraphs(weights, skeleton, threshold) {
  const strongest = Math.max(...weights.flat(), 1e-9);
  const drawn = new Set(skeleton.map(([i, j]) => `${i}-${j}`));
  const edges = [];
  for (let i = 0; i < weights.length; i++) {
    for (let j = i + 1; j < weights.length; j++) {
      const weight = weights[i][j] / strongest;
      const yours = drawn.has(`${i}-${j}`);
      if (weight >= threshold && weight > 0) edges.push({ i, j, weight, kind: yours ? "kept" : "new" });
      else if (yours) edges.push({ i, j, weight, kind: "weakened" });
    }
  }
  return edges.sort((a, b) => a.weight - b.weight);
}
