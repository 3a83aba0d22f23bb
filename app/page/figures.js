// Figures: a title that says what is seen, the plot, what is good, and the numbers for who cannot see it or wants them.

import { saveBlob } from "./api.js";
import { h, svg, table } from "./dom.js";
import { number } from "./format.js";
import { chart, path, rangeOf } from "./plot.js";

const SHOWN = 100;

/** The numbers behind a plot, made when they are asked for. head, rows(): their table; file: its name as CSV. */
export function numbersBehind(title, head, rows, file) {
  const place = h("details", { class: "numbers" }, h("summary", {}, "Numbers"));
  place.addEventListener("toggle", () => place.append(...numbersOf(title, head, rows(), file)), { once: true });
  return place;
}

/** A figure. head, rows: its numbers; file: their name as CSV. */
export function figure({ title, plot, good, head, rows, file, key }) {
  const numbers = numbersBehind(title, head, () => rows, file);
  return h("figure", {}, h("h3", {}, title), key ? h("p", { class: "key" }, key) : null, plot, h("figcaption", {}, good), numbers);
}

function numbersOf(title, head, rows, file) {
  const shown = rows.slice(0, SHOWN).map((row) => row.map((cell) => (typeof cell === "number" ? number(cell) : cell)));
  const cut = rows.length > SHOWN ? `${title}: the first ${SHOWN} of ${rows.length} rows` : title;
  const save = () => saveBlob(new Blob([csv(head, rows)], { type: "text/csv" }), file);
  return [
    h("p", {}, h("button", { type: "button", onclick: save }, "Download as CSV")),
    table(cut, head, shown, { numeric: head.map((_, column) => column), rowHeads: false, hideCaption: true }),
  ];
}

/** Rows as CSV. */
export function csv(head, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [head, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

/** A line over numbers. */
export function lineFigure({ title, good, x, y }) {
  const plot = chart({
    x: { range: rangeOf(x.values, 0.01), label: x.label },
    y: { range: rangeOf(y.values), label: y.label },
    label: `${title}: from ${number(y.values[0])} to ${number(y.values.at(-1))}`,
    height: 220,
    draw: (at) => svg("path", { class: "line", d: path(x.values.map((value, row) => [at.x(value), at.y(y.values[row])])) }),
  });
  const rows = x.values.map((value, row) => [value, y.values[row]]);
  return figure({ title, good, plot, head: [x.label, y.label], rows, file: "objective.csv" });
}
