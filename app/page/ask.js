// Ask: one field a column, the answer with its error bar, and beneath each field what would be if it were another value.

import { Problem, get, ofTarget, send, targetQuery } from "./api.js";
import { announce, h, newId, select, show } from "./dom.js";
import { failure } from "./failure.js";
import { numbersBehind } from "./figures.js";
import { number, plain, plural } from "./format.js";
import { curve, density, levelsPlot } from "./whatif.js";
import { why } from "./why.js";

const SHOWN = 12; // columns that have a curve before all are asked for
const STEPS = 41;
const LEVELS = 12;
const WAIT_MS = 120;
const ROOM = 0.25; // of the current 95% interval, beyond both of its ends
const QUANTILES = Array.from({ length: 99 }, (_, place) => (place + 1) / 100);
const BANDS = [0.5, 0.8, 0.95];

export async function view({ model, detail, signal, place }) {
  const reference = `${model.name}@${detail.version}`;
  const { report } = detail;
  const bars = detail.artefact?.kind !== "mean";
  const bounds = [report.target_transform?.lowest ?? -Infinity, report.target_transform?.highest ?? Infinity];
  const columns = ranked(detail, await get(`${place}/importance${targetQuery(detail)}`, { signal }));
  const cards = columns.map((column) => card(column, () => later()));
  const answer = h("div", { class: "panel answer" });
  const problem = h("div");
  const reasons = why({ reference, target: detail.target, signal });
  const list = h("div", { class: "cards" });
  const more = h("p");
  let shown = Math.min(SHOWN, cards.length);
  let asked = 0;
  let timer;
  let last = null;
  const same = h("input", { type: "checkbox", id: newId("same"), onchange: () => last && drawCurves(...last) });

  function later() {
    clearTimeout(timer);
    answer.classList.add("stale");
    timer = setTimeout(now, WAIT_MS);
  }

  async function now() {
    const turn = (asked += 1);
    const row = Object.fromEntries(cards.map(({ column, value }) => [column.name, value()]));
    const visible = cards.slice(0, shown).filter(({ places }) => places().length);
    const table = Object.fromEntries(Object.keys(row).map((name) => [name, [row[name]]]));
    for (const { column, places } of visible) {
      for (const value of places()) for (const name of Object.keys(row)) table[name].push(name === column.name ? value : row[name]);
    }
    const body = (columnsAsked, more_) => ({ model: reference, columns: columnsAsked, ...(bars ? more_ : { interval: false }) });
    try {
      const alone = Object.fromEntries(Object.entries(row).map(([name, value]) => [name, [value]]));
      const [one, curves] = await Promise.all([
        send("POST", "predict", body(alone, { interval: BANDS, quantiles: QUANTILES, include: ["support"] }), { signal }),
        send("POST", "predict", body(table, { interval: BANDS }), { signal }),
      ]);
      if (turn !== asked || signal.aborted) return;
      cards.forEach((each) => each.wrong(""));
      show(problem);
      drawAnswer(ofTarget(one, detail));
      reasons.ask(row);
      drawCurves(visible, ofTarget(curves, detail));
    } catch (error) {
      if (error.name === "AbortError" || turn !== asked) return;
      refuse(error);
    } finally {
      if (turn === asked) answer.classList.remove("stale");
    }
  }

  function refuse(error) {
    reasons.clear();
    const places = error instanceof Problem ? error.errors.filter((each) => each.column) : [];
    cards.forEach((each) => each.wrong(places.find(({ column }) => column === each.column.name)?.message ?? ""));
    show(problem, failure(places.length ? { message: places.map(({ column, message }) => `${column}: ${message}`).join("; ") } : error));
  }

  function drawAnswer(one) {
    const [mean] = one.mean;
    if (!bars) {
      show(answer, h("div", { class: "big" }, `${number(mean)} ${detail.target}`), h("p", {}, "This version keeps its mean alone: it has no error bars."));
      return;
    }
    const [std] = one.std;
    const ends = BANDS.map((_, level) => [one.lower[level][0], one.upper[level][0]]);
    const said = `95%: ${number(ends[2][0], std)} to ${number(ends[2][1], std)}`;
    show(
      answer,
      h(
        "div",
        {},
        h("p", { class: "quiet" }, "Predicted ", detail.target),
        h("p", { class: "big" }, `${number(mean, std)} ± ${number(std, std)}`),
        h("ul", { class: "levels" }, BANDS.map((level, place_) => h("li", {}, `${100 * level}%: ${number(ends[place_][0], std)} to ${number(ends[place_][1], std)}`))),
        (one.warnings ?? []).map(() => h("p", { class: "note" }, "This row is far from all rows of training: the answer is little more than the target's average, and its error bar is as wide.")),
      ),
      density(one.quantile_values.map(([value]) => value), ends, mean, detail.target, bounds),
    );
    announce(`${detail.target} ${number(mean, std)}, ${said}`);
  }

  function drawCurves(visible, found) {
    last = [visible, found];
    const [lows, highs] = bars ? [found.lower.at(-1), found.upper.at(-1)] : [found.mean, found.mean];
    // The axis of a single curve holds some error bars, so that a curve that is flat looks flat.
    const usual = bars ? ROOM * (highs[0] - lows[0]) : 2 * (report.holdout ?? report.leave_one_out).rmse;
    const inside = (value) => Math.min(Math.max(value, bounds[0]), bounds[1]);
    const [lowest, highest] = [inside(lows[0] - usual), inside(highs[0] + usual)];
    const rangeOfPart = (start, end) => [Math.min(lowest, ...lows.slice(start, end)), Math.max(highest, ...highs.slice(start, end))];
    let start = 1;
    for (const each of visible) {
      const values = each.places();
      const part = (list) => list.slice(start, start + values.length);
      const data = { values, mean: part(found.mean), bands: bars ? [2, 0].map((level) => [part(found.lower[level]), part(found.upper[level])]) : [] };
      const range = same.checked ? rangeOfPart(0, lows.length) : rangeOfPart(start, start + values.length);
      each.draw(data, { range, target: detail.target, now: found.mean[0] });
      start += values.length;
    }
  }

  function showCards() {
    show(list, cards.map(({ body }) => body));
    cards.forEach((each, order) => each.fold(order >= shown));
    show(more, shown < cards.length ? h("button", { type: "button", onclick: () => { shown = cards.length; showCards(); now(); } }, `Curves for the other ${plural(cards.length - shown, "column")} too`) : null);
  }

  function reset() {
    cards.forEach((each) => each.reset());
    now();
  }

  showCards();
  return {
    body: h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), now()), "aria-label": "Ask for a prediction" },
      answer,
      problem,
      reasons.body,
      h("h2", {}, "What if"),
      h("p", { class: "actions" }, h("span", { class: "quiet" }, `Change a value: the answer and all curves follow. Each curve shows what would be predicted if this column alone were another${bars ? ", with its 50% and 95% bands" : ""}. Columns that move the prediction most come first.`), h("span", {}, same, " ", h("label", { for: same.id }, "One vertical axis for all")), h("button", { type: "button", onclick: reset }, "Back to typical values")),
      list,
      more,
    ),
    shown: now,
  };
}

function ranked({ report }, { features }) {
  const order = new Map(features.map(({ name }, place) => [name, place]));
  return report.columns.filter((column) => column.kind !== "unused").sort((a, b) => order.get(a.name) - order.get(b.name));
}

const DAY = 86_400_000;

function card(column, changed) {
  const chart = h("div");
  const fault = h("span", { class: "fault", id: newId("fault") });
  const numeric = column.kind === "number";
  const hasRange = column.lowest !== undefined && column.highest !== undefined && column.kind !== "boolean";
  const whole = numeric && hasRange && [column.lowest, column.highest, column.typical].every(Number.isInteger);
  const control = controlOf(column);
  const id = (control.id = newId("ask"));
  control.setAttribute("aria-describedby", `${id}-hint ${fault.id}`);
  const slider = hasRange && column.lowest !== column.highest ? sliderOf(column, whole) : null;
  control.addEventListener("input", () => {
    if (slider && !Number.isNaN(toNumber(column, control.value))) slider.value = toNumber(column, control.value);
    changed();
  });
  slider?.addEventListener("input", () => {
    control.value = fromNumber(column, Number(slider.value), whole);
    changed();
  });

  function value() {
    const text = control.value.trim();
    if (text === "") return null;
    if (numeric) return Number.isNaN(Number(text)) ? text : Number(text);
    return column.kind === "boolean" ? text === "true" : text;
  }

  // Values of the curve; none where the range is not known.
  function places() {
    if (column.kind === "boolean") return [false, true];
    if (column.kind === "category") {
      const first = column.levels.slice(0, LEVELS);
      return first.includes(control.value) || !column.levels.includes(control.value) ? first : [...first.slice(1), control.value];
    }
    if (!slider) return [];
    const [low, high] = ends(column);
    const steps = whole ? Math.min(STEPS, high - low + 1) : STEPS;
    const at = Array.from({ length: steps }, (_, step) => low + ((high - low) * step) / (steps - 1));
    return at.map((place) => (numeric ? (whole ? Math.round(place) : place) : fromNumber(column, place)));
  }

  function draw(data, { range, target, now }) {
    const open = chart.querySelector("details")?.open;
    plot(data, { range, target, now });
    const head = [column.name, "mean", ...(data.bands.length ? ["lower 95%", "upper 95%"] : [])];
    const rows = () => data.values.map((each, row) => [each, data.mean[row], ...(data.bands.length ? data.bands[0].map((end) => end[row]) : [])]);
    const numbers = numbersBehind(`${target} over ${column.name}`, head, rows, "what-if.csv");
    numbers.open = Boolean(open);
    chart.append(numbers);
  }

  function plot(data, { range, target, now }) {
    if (column.kind === "category" || column.kind === "boolean") {
      show(chart, levelsPlot(column.name, data, { range, target, current: value() }));
      return;
    }
    const at = data.values.map((each) => toNumber(column, each));
    const current = toNumber(column, control.value);
    show(chart, curve(column.name, { ...data, at }, { range, target, current, now, dates: !numeric }));
  }

  function reset() {
    control.value = typicalOf(column);
    if (slider) slider.value = toNumber(column, control.value);
    fault.textContent = "";
  }

  function wrong(message) {
    fault.textContent = message;
    if (message) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }

  reset();
  const hint = h("span", { class: "hint", id: `${id}-hint` }, hintOf(column, hasRange));
  const body = h("div", { class: "card" }, h("div", { class: "field" }, h("label", { for: id }, column.name), control, hint, fault), slider, chart);
  return { column, body, value, places, draw, reset, wrong, fold: (folded) => (chart.hidden = folded) };
}

function controlOf(column) {
  const maybe = column.missing ? [["", "missing"]] : [];
  if (column.kind === "boolean") return select([...maybe, ["true", "true"], ["false", "false"]], "true");
  if (column.kind === "category" && !column.others_grouped) return select([...maybe, ...column.levels.map((level) => [level, level])], column.typical ?? column.levels[0]);
  return h("input", { type: "text", inputmode: column.kind === "number" ? "decimal" : null, autocomplete: "off", spellcheck: "false" });
}

function sliderOf(column, whole) {
  const [low, high] = ends(column);
  const step = whole ? 1 : (high - low) / 400;
  const made = h("input", { type: "range", min: low, max: high, step, "aria-label": `${column.name}, slider` });
  return made;
}

function hintOf(column, hasRange) {
  const missing = column.missing ? "; may be left empty" : "";
  if (column.kind === "category") return `${plural(column.levels.length, "level")}${column.levels.length > LEVELS ? `, ${LEVELS} of them drawn` : ""}${missing}`;
  if (!hasRange) return missing.slice(2);
  const [low, high] = column.kind === "date" ? [column.lowest, column.highest] : [plain(column.lowest), plain(column.highest)];
  return `in training ${low} to ${high}${missing}`;
}

function typicalOf(column) {
  if (column.typical === undefined) return column.levels?.[0] ?? "";
  return column.kind === "number" ? plain(column.typical, 12) : String(column.typical);
}

// The service reads a time without a zone as UTC.
function toNumber(column, value) {
  if (column.kind !== "date") return value === "" || value === null ? NaN : Number(value);
  return Date.parse(/T/.test(value) && !/Z$|[+-]\d\d:?\d\d$/.test(value) ? `${value}Z` : value);
}

function fromNumber(column, value, whole) {
  if (column.kind === "date") {
    const text = new Date(value).toISOString();
    return ends(column)[1] - ends(column)[0] > 3 * DAY ? text.slice(0, 10) : text.slice(0, 19);
  }
  return whole ? String(Math.round(value)) : plain(value, 4);
}

function ends(column) {
  return [toNumber(column, column.lowest), toNumber(column, column.highest)];
}
