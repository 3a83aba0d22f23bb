// Average effects: what a model predicts over each column, averaged over all others.

import { h } from "./dom.js";
import { numbersBehind } from "./figures.js";
import { rangeOf } from "./plot.js";
import { curve, levelsPlot } from "./whatif.js";

const MOST_EFFECTS = 6;
const MOST_LEVELS = 12;

/** What is predicted over each column, the others as they are spread in training; on one axis, so that they compare. */
export function effects({ columns, average_target: average }, shares, { target, report }) {
  const kinds = new Map(report.columns.map(({ name, kind }) => [name, kind]));
  const order = new Map(shares.columns.map(({ name }, place) => [name, place]));
  const shown = [...columns].sort((a, b) => order.get(a.name) - order.get(b.name)).slice(0, MOST_EFFECTS).map(known);
  const range = rangeOf([average, ...shown.flatMap(({ mean }) => mean)], 0.06);
  const rest = columns.length > shown.length ? ` The first ${shown.length} of ${columns.length}.` : "";
  return [
    h("h2", {}, "What each column does on average"),
    h("p", { class: "quiet" }, `Predicted ${target} over one column, averaged over the others as they are spread in training, as if columns were independent: what the model has learnt, not what causes what. Where effects hang on each other an average hides it: “Ask and what-if” draws the curves of one row, with their bands. The columns that matter most come first.${rest}`),
    h("div", { class: "cards" }, shown.map(({ name, values, mean }) => h("div", { class: "card" }, h("h3", {}, name), plotOf(kinds.get(name), name, values, mean), numbersBehind(`${target} over ${name}, on average`, [name, target], () => values.map((value, place) => [value, mean[place]]), "average-effect.csv")))),
  ];

  function plotOf(kind, name, values, mean) {
    if (kind === "number" || kind === "date") {
      const at = kind === "date" ? values.map((value) => Date.parse(value)) : values;
      if (at.length > 1) return curve(name, { at, mean, bands: [] }, { range, target, dates: kind === "date" });
    }
    return levelsPlot(name, { values, mean, bands: [] }, { range, target });
  }
}

// Without missing cells, of a category the levels that most rows have.
function known({ name, values, weights, effect_target: effect }) {
  const places = values.map((_, place) => place).filter((place) => values[place] !== null);
  const most = values.some((value) => typeof value === "string" || typeof value === "boolean") && places.length > 2 * MOST_LEVELS ? places.sort((a, b) => weights[b] - weights[a]).slice(0, MOST_LEVELS) : places;
  return { name, values: most.map((place) => values[place]), mean: most.map((place) => effect[place]) };
}
