// Plots of the size of a word, in the cells of a table.

import { h, svg } from "./dom.js";
import { count } from "./format.js";

const WIDTH = 100;
const HEIGHT = 24;

/** A histogram. */
export function sparkBars(counts, label) {
  const most = Math.max(...counts, 1);
  const step = WIDTH / counts.length;
  return svg(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "spark", role: "img", "aria-label": label, preserveAspectRatio: "none" },
    counts.map((value, place) => {
      const height = value ? Math.max(1, (value / most) * HEIGHT) : 0;
      return svg("rect", { x: place * step + 0.3, y: HEIGHT - height, width: step - 0.6, height, class: "bar" });
    }),
  );
}

/** The most common levels, each with its share of the most common one. */
export function sparkLevels(top, distinct) {
  const rest = distinct - top.length;
  return h(
    "ul",
    { class: "levels" },
    top.map(({ value, count: times }) => h("li", {}, h("span", { class: "level" }, value), h("span", { class: "quiet" }, ` ${count(times)}`))),
    rest > 0 ? h("li", { class: "quiet" }, `and ${count(rest)} more`) : null,
  );
}
