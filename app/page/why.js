// Why: each column's part of an answer, the rows of the model near to it, and how far it is from the data.

import { send } from "./api.js";
import { h, show, svg, table } from "./dom.js";
import { failure } from "./failure.js";
import { numbersBehind } from "./figures.js";
import { count, number, percent, plural } from "./format.js";

const SHOWN = 10; // columns that have a bar of their own
const COLUMNS = 4; // of a near row, those with the largest parts
const WAIT_MS = 400; // an explanation costs more than an answer
const HALF = 50;
const ALMOST_NONE = 0.0005; // of the largest part

/** The section beside an answer. ask(row): explain this row by and by, the last one asked for; clear(): there is none. */
export function why({ reference, target, signal }) {
  const place = h("div");
  const body = h("section", { class: "why", "aria-label": "Why this answer" }, h("h2", {}, "Why this answer"), place);
  let asked = 0;
  let timer;
  let running = false; // one at a time: a model of many rows takes seconds
  let waiting = null;

  async function now(row, turn) {
    if (running) {
      waiting = [row, turn];
      return;
    }
    running = true;
    try {
      const found = await send("POST", `models/${encodeURIComponent(reference)}/explain`, { rows: [row], target }, { signal });
      if (turn === asked && !signal.aborted) draw(found);
    } catch (error) {
      if (error.name === "AbortError" || turn !== asked) return;
      show(place, failure(error));
    } finally {
      if (turn === asked) body.classList.remove("stale");
      running = false;
      const next = waiting;
      waiting = null;
      if (next && next[1] === asked && !signal.aborted) now(...next);
    }
  }

  function draw(found) {
    const open = [...place.querySelectorAll("details")].map((each) => each.open);
    const [row] = found.rows;
    show(place, h("div", { class: "figures" }, partsOf(found, row, target), nearOf(row, target, found)));
    [...place.querySelectorAll("details")].forEach((each, order) => (each.open = Boolean(open[order])));
  }

  return {
    body,
    ask(row) {
      const turn = (asked += 1);
      body.classList.add("stale");
      clearTimeout(timer);
      timer = setTimeout(() => now(row, turn), WAIT_MS);
    },
    clear() {
      asked += 1;
      clearTimeout(timer);
      body.classList.remove("stale");
      show(place, h("p", { class: "quiet" }, "There is no answer, and so nothing to explain."));
    },
  };
}

// How a part is told on each scale: log parts multiply the target.
function tellOf(scale, most) {
  if (scale === "log") return (part) => `× ${Math.exp(part).toLocaleString("en", { maximumSignificantDigits: 3 })}`;
  return (part) => `${part > 0 ? "+" : ""}${number(part, most / 10)}`;
}

function partsOf(found, row, target) {
  const shown = row.parts.slice(0, SHOWN).filter(({ part }, order) => order === 0 || Math.abs(part) > ALMOST_NONE * Math.abs(row.parts[0].part));
  const others = row.parts.slice(shown.length);
  const most = Math.abs(row.parts[0]?.part) || 1;
  const tell = tellOf(found.scale, most);
  const lines = shown.map(({ column, value, part }) => [`${column} = ${cell(value)}`, part]);
  if (others.length) lines.push([`${plural(others.length, "other column")}`, others.reduce((sum, { part }) => sum + part, 0)]);
  const list = h("ul", { class: "bars parts" }, lines.map(([name, part]) => h("li", {}, h("span", { class: "bar-name" }, name), bar(part, most), h("span", { class: "bar-value" }, tell(part)))));
  const whole = number(row.centre_target, Math.abs(row.centre_target - found.baseline_target) || undefined);
  const start = number(found.baseline_target, Math.abs(row.centre_target - found.baseline_target) || undefined);
  const scale = found.scale === "target" ? "" : found.scale === "log" ? ` The model has learnt the logarithm of ${target}, so parts multiply.` : ` Parts are on the scale that the model has learnt ${target} on (${found.scale}).`;
  return h(
    "figure",
    {},
    h("h3", {}, "Each column's part"),
    h("p", {}, `From ${start} ${target}, where no column is known, to ${whole} for this row:`),
    list,
    h("figcaption", {}, `The parts add up to the difference.${scale} They are Shapley values: what knowing a column changes, averaged over all orders in which columns become known, the others as they are spread in training. They say what the model does with these values, not what would happen if they were changed; columns that move together share their part.`),
    numbersBehind(`Parts of ${target}`, ["column", "value", "part"], () => row.parts.map(({ column, value, part }) => [column, cell(value), part]), "parts.csv"),
  );
}

function bar(part, most) {
  const length = Math.max(0.4, (HALF * Math.min(1, Math.abs(part) / most)));
  return svg(
    "svg",
    { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "bar-line", "aria-hidden": "true" },
    svg("rect", { class: part < 0 ? "bar less" : "bar", x: part < 0 ? HALF - length : HALF, width: length, height: 8 }),
    svg("rect", { class: "middle", x: HALF - 0.2, width: 0.4, height: 8 }),
  );
}

function nearOf(row, target, found) {
  const columns = row.parts.slice(0, COLUMNS).map(({ column }) => column);
  const numbered = row.nearest.some((near) => near.row !== null);
  const head = [numbered ? "Row" : "", "Alike", ...columns];
  const rows = row.nearest.map((near, order) => [near.row === null ? `${order + 1}.` : count(near.row), percent(near.similarity, near.similarity < 0.1 ? 1 : 0), ...columns.map((name) => cell(near.values[name]))]);
  const told = [`The nearest of ${plural(found.rows_of_mean, "row")} that the answer rests on is ${number(row.distance, Math.max(0.1, row.distance / 10))} lengthscales away.`];
  if (row.support !== null) told.push(`${percent(row.support, row.support < 0.1 ? 1 : 0)} of the uncertainty that there is without data is left${row.far ? ": the answer is little more than an average" : ""}.`);
  const full = ["row", "alike", "distance", "adds", ...row.parts.map(({ column }) => column)];
  const numbers = () => row.nearest.map((near) => [near.row ?? "", near.similarity, near.distance, near.adds, ...row.parts.map(({ column }) => cell(near.values[column]))]);
  return h(
    "figure",
    {},
    h("h3", {}, "What it rests on"),
    row.outside.length ? h("p", { class: "note" }, `Beyond what training has seen: ${row.outside.join(", ")}.`) : null,
    h("p", {}, told.join(" ")),
    table("Nearest rows", head, rows, { numeric: [1], hideCaption: true }),
    h("figcaption", {}, `The nearest first, as the model sees it: a column that does not matter brings no distance. Alike is 100% for an equal row. What each adds to the predicted ${target} is in the numbers: weights of rows that lie close together correct each other.`),
    numbersBehind("Nearest rows", full, numbers, "nearest.csv"),
  );
}

function cell(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? String(Number(value.toPrecision(5))) : String(value);
}
