// Small plots of answers: a density with its bands, a curve with its band, a category's levels.

import { svg } from "./dom.js";
import { number } from "./format.js";
import { area, chart, path } from "./plot.js";

const SMALL = { width: 320, height: 170, margin: { top: 8, right: 14, bottom: 24, left: 54 } };
const SMOOTH = 0.28; // of a standard deviation: quantiles are steps where few rows were left out
const POINTS = 121;

/**
 * The density of a new target, from its quantiles, over its bands. ends: of the 50, 80 and 95% intervals; the last
 * argument: what no target is below and above.
 */
export function density(quantiles, ends, mean, target, [lowest, highest]) {
  const spread = (quantiles.at(-16) - quantiles[15]) / 2 || Math.abs(mean) || 1;
  const low = Math.max(quantiles[0] - 0.7 * spread, lowest);
  const high = Math.min(quantiles.at(-1) + 0.7 * spread, highest);
  const xs = Array.from({ length: POINTS }, (_, step) => low + ((high - low) * step) / (POINTS - 1));
  const width = SMOOTH * spread;
  const heights = xs.map((x) => quantiles.reduce((sum, q) => sum + Math.exp(-0.5 * ((x - q) / width) ** 2), 0));
  const most = Math.max(...heights);
  const inside = ([from, to]) => xs.map((x, place) => [x, heights[place] / most]).filter(([x]) => x >= from && x <= to);
  return chart({
    x: { range: [low, high], label: target },
    y: { range: [0, 1.05], ticks: [] },
    width: 420,
    height: 170,
    margin: { top: 6, right: 12, bottom: 44, left: 12 },
    label: `Density of ${target}: mean ${number(mean, spread)}, 95% from ${number(ends[2][0], spread)} to ${number(ends[2][1], spread)}`,
    draw: (at) => [
      [...ends].reverse().map((band) => {
        const points = inside(band);
        return points.length > 1 ? svg("path", { class: "band", d: area(points.map(([x]) => at.x(x)), points.map(() => at.y(0)), points.map(([, y]) => at.y(y))) }) : null;
      }),
      svg("path", { class: "line", d: path(xs.map((x, place) => [at.x(x), at.y(heights[place] / most)])) }),
      svg("line", { class: "now", x1: at.x(mean), x2: at.x(mean), y1: at.y(0), y2: at.y(1) }),
    ],
  });
}

/** What would be predicted over one column; bands: of 95% and 50%, each [lower, upper]. */
export function curve(name, { at: places, mean, bands }, { range, target, current, now, dates }) {
  const ticks = dates ? [[places[0], day(places[0])], [places.at(-1), day(places.at(-1))]] : undefined;
  const [from, to] = [Math.min(...mean), Math.max(...mean)];
  return chart({
    ...SMALL,
    x: { range: [places[0], places.at(-1)], ticks },
    y: { range },
    label: `${target} over ${name}: from ${number(mean[0], to - from)} to ${number(mean.at(-1), to - from)}, between ${number(from, to - from)} and ${number(to, to - from)}`,
    draw: (at) => [
      bands.map(([lower, upper]) => svg("path", { class: "band", d: area(places.map(at.x), lower.map(at.y), upper.map(at.y)) })),
      svg("path", { class: "line", d: path(places.map((x, row) => [at.x(x), at.y(mean[row])])) }),
      Number.isFinite(current) ? [svg("line", { class: "now", x1: at.x(current), x2: at.x(current), y1: at.box.top, y2: at.box.bottom }), svg("circle", { class: "now-point", cx: at.x(current), cy: at.y(now), r: 4.5 })] : null,
    ],
  });
}

function day(milliseconds) {
  return new Date(milliseconds).toISOString().slice(0, 10);
}

/** The same over the levels of a category, in the order of their means. */
export function levelsPlot(name, { values, mean, bands }, { range, target, current }) {
  const order = values.map((_, row) => row).sort((a, b) => mean[b] - mean[a]);
  const short = (text) => (text.length > 13 ? `${text.slice(0, 12)}…` : text);
  const [outer, inner] = bands;
  return chart({
    width: 320,
    height: 40 + 20 * values.length,
    margin: { top: 6, right: 10, bottom: 24, left: 104 },
    x: { range },
    y: { range: [values.length - 0.4, -0.6], ticks: order.map((row, place) => [place, short(String(values[row]))]) },
    label: `${target} by ${name}: most for ${values[order[0]]}, least for ${values[order.at(-1)]}`,
    draw: (at) =>
      order.map((row, place) => {
        const chosen = values[row] === current;
        const y = at.y(place);
        return [
          outer ? svg("line", { class: "span", x1: at.x(outer[0][row]), x2: at.x(outer[1][row]), y1: y, y2: y }) : null,
          inner ? svg("line", { class: "span inner", x1: at.x(inner[0][row]), x2: at.x(inner[1][row]), y1: y, y2: y }) : null,
          svg("circle", { class: chosen ? "now-point" : "point", cx: at.x(mean[row]), cy: y, r: chosen ? 5 : 3.5 }),
        ];
      }),
  });
}
