// Axes and marks in SVG. Colours and strokes are the style sheet's, so that both themes have their own.

import { svg } from "./dom.js";
import { digitsFor } from "./format.js";

const WIDTH = 420;
const HEIGHT = 300;
const MARGIN = { top: 10, right: 24, bottom: 46, left: 68 };

/** Round numbers between two ends, about `wanted` of them. */
export function ticks([low, high], wanted = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
  const found = [];
  // + 0: not the minus of a nought
  for (let place = Math.ceil(low / step); place * step <= high + 1e-9 * step; place += 1) found.push(place * step + 0);
  return found;
}

/** The ends of some numbers, with a little room at both. */
export function rangeOf(values, room = 0.04) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const low = finite.reduce((a, b) => Math.min(a, b));
  const high = finite.reduce((a, b) => Math.max(a, b));
  const more = high > low ? room * (high - low) : Math.abs(low) * 0.1 || 1;
  return [low - more, high + more];
}

function shortNumber(value, step) {
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) return value.toExponential(1).replace("-", "−");
  const digits = Math.max(0, digitsFor(step) - 1);
  const short = Math.abs(value) >= 10_000 && step >= 100 ? { notation: "compact" } : { maximumFractionDigits: digits };
  return value.toLocaleString("en", { useGrouping: "min2", ...short }).replace("-", "−"); // years are no thousands
}

/**
 * A plot with axes. x, y: {range, label, ticks: [[place, text], ..] or none}; draw({x, y, box}) gives the marks, x and y
 * being scales; label: what is to be seen, for who does not see it.
 */
export function chart({ x, y, draw, label, width = WIDTH, height = HEIGHT, margin = MARGIN }) {
  const box = { left: margin.left, right: width - margin.right, top: margin.top, bottom: height - margin.bottom };
  const across = scale(x.range, [box.left, box.right]);
  const up = scale(y.range, [box.bottom, box.top]);
  return svg(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "chart", role: "img", "aria-label": label },
    axisTicks(x, Math.max(2, Math.round((box.right - box.left) / 75))).map(([place, text]) => [
      svg("line", { class: "grid", x1: across(place), x2: across(place), y1: box.top, y2: box.bottom }),
      svg("text", { x: across(place), y: box.bottom + 17, "text-anchor": "middle" }, text),
    ]),
    axisTicks(y, Math.max(2, Math.round((box.bottom - box.top) / (height < HEIGHT ? 32 : 40)))).map(([place, text]) => [
      svg("line", { class: "grid", x1: box.left, x2: box.right, y1: up(place), y2: up(place) }),
      svg("text", { x: box.left - 7, y: up(place) + 4, "text-anchor": "end" }, text),
    ]),
    x.label ? svg("text", { class: "axis", x: (box.left + box.right) / 2, y: height - 8, "text-anchor": "middle" }, x.label) : null,
    y.label ? svg("text", { class: "axis", transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, y.label) : null,
    svg("svg", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top, viewBox: `${box.left} ${box.top} ${box.right - box.left} ${box.bottom - box.top}` }, draw({ x: across, y: up, box })),
  );
}

function axisTicks(axis, wanted) {
  if (axis.ticks) return axis.ticks;
  const places = ticks(axis.range, wanted);
  const step = places.length > 1 ? places[1] - places[0] : Math.abs(places[0]) || 1;
  return places.map((place) => [place, shortNumber(place, step)]);
}

function scale([low, high], [from, to]) {
  return (value) => from + ((value - low) / (high - low || 1)) * (to - from);
}

/** A line through points, as a path. */
export function path(points) {
  return points.map(([x, y], place) => `${place ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** The area between two lines over the same places. */
export function area(places, lower, upper) {
  const there = places.map((x, row) => [x, upper[row]]);
  const back = places.map((x, row) => [x, lower[row]]).reverse();
  return `${path([...there, ...back])}Z`;
}
