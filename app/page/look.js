// Look: rows the model had not seen, as it predicted them; how far its error bars can be trusted; what matters to it.

import { get, targetQuery } from "./api.js";
import { candidates } from "./candidates.js";
import { h, show, svg, table } from "./dom.js";
import { failure } from "./failure.js";
import { figure } from "./figures.js";
import { count, number, percent, plural, score } from "./format.js";
import { chart, path, rangeOf } from "./plot.js";

const MOST_BARS = 12;
const MANY = 150;

export async function view({ detail, signal, place }) {
  const { report, target } = detail;
  const scores = report.holdout ?? report.leave_one_out;
  const matters = await get(`${place}/importance${targetQuery(detail)}`, { signal });
  let figures;
  try {
    const rows = await get(`${place}/held-out${targetQuery(detail)}`, { signal });
    figures = [againstTruth(rows, target), reliability(scores, report), residuals(rows, target)];
  } catch (error) {
    if (error.status !== 404) throw error;
    figures = [reliability(scores, report), h("p", { class: "quiet" }, error.message)];
  }
  const averages = h("section", { "aria-label": "What each column does on average" });
  return {
    shown: async () => {
      try {
        const [{ effects }, told] = await Promise.all([import("./effects.js"), get(`${place}/effects${targetQuery(detail)}`, { signal })]);
        show(averages, effects(told, matters.shares, detail));
      } catch (error) {
        if (error.name !== "AbortError") show(averages, failure(error));
      }
    },
    body: [
      h("div", { class: "figures" }, figures, importance(matters, detail)),
      averages,
      report.warnings.length ? h("section", {}, h("h2", {}, "What to know"), h("ul", { class: "warnings" }, report.warnings.map((text) => h("li", {}, text)))) : null,
      scoreTable(report, target),
      partTable(report, target),
      candidates(report),
    ],
  };
}

function kindOf(rows) {
  const all = rows.held_out ? "held-out rows" : "left-out rows";
  return rows.rows.length < rows.total ? `${count(rows.rows.length)} of ${count(rows.total)} ${all}` : `${count(rows.total)} ${all}`;
}

function againstTruth(rows, target) {
  const range = rangeOf([...rows.target, ...rows.lower, ...rows.upper]);
  const outside = rows.target.map((truth, row) => truth < rows.lower[row] || truth > rows.upper[row]);
  const missed = outside.filter(Boolean).length;
  const plot = chart({
    x: { range, label: `true ${target}` },
    y: { range, label: `predicted ${target}` },
    label: `Predicted against true ${target} of ${kindOf(rows)}; the truth is outside of its interval in ${missed}`,
    draw: (at) => [
      rows.target.map((truth, row) => svg("line", { class: endsOf(rows, outside[row]), x1: at.x(truth), x2: at.x(truth), y1: at.y(rows.lower[row]), y2: at.y(rows.upper[row]) })),
      rows.target.map((truth, row) => (outside[row] ? diamond(at.x(truth), at.y(rows.mean[row])) : svg("circle", { class: "point", cx: at.x(truth), cy: at.y(rows.mean[row]), r: 2.2 }))),
      svg("path", { class: "rule", d: path(range.map((end) => [at.x(end), at.y(end)])) }),
    ],
  });
  return figure({
    title: `Predicted against true ${target}, ${kindOf(rows)}`,
    key: [h("span", { class: "key-mean" }, "● with 95% interval"), "   ", h("span", { class: "key-truth" }, "◆ truth outside of it")],
    plot,
    good: `Points near the dashed line are good. About 1 in 20 truths should be outside of its interval; here ${missed} of ${count(rows.rows.length)} are.`,
    head: ["row", target, "mean", "std", "lower", "upper"],
    rows: rows.rows.map((row, place) => [row, ...["target", "mean", "std", "lower", "upper"].map((name) => rows[name][place])]),
    file: "held-out.csv",
  });
}

// Many bars over each other are lighter.
function endsOf(rows, outside = false) {
  return `ends${outside ? " outside" : ""}${rows.rows.length > MANY ? " many" : ""}`;
}

function diamond(x, y) {
  return svg("path", { class: "point outside", d: `M${x - 4} ${y}L${x} ${y - 4}L${x + 4} ${y}L${x} ${y + 4}Z` });
}

// The share of truths below each promised quantile, with what chance alone would do to that share.
function reliability(scores, report) {
  const points = Object.entries(scores.reliability)
    .map(([promised, found]) => [Number(promised), found])
    .sort((a, b) => a[0] - b[0]);
  const promised = Array.from({ length: 51 }, (_, step) => step / 50);
  const chance = promised.map((share) => 2 * Math.sqrt((share * (1 - share)) / scores.rows));
  const percents = [0, 0.25, 0.5, 0.75, 1].map((share) => [share, percent(share, 0)]);
  const off = points.filter(([share, found]) => Math.abs(found - share) > 2 * Math.sqrt((share * (1 - share)) / scores.rows)).length;
  const plot = chart({
    x: { range: [0, 1], label: "promised: share of truths below the quantile", ticks: percents },
    y: { range: [0, 1], label: "found", ticks: percents },
    label: `Promised and found shares of truths below each quantile; ${off} of ${points.length} are further off than chance`,
    draw: (at) => [
      svg("path", {
        class: "band",
        d: `${path([...promised.map((x, row) => [at.x(x), at.y(Math.min(1, x + chance[row]))]), ...promised.map((x, row) => [at.x(x), at.y(Math.max(0, x - chance[row]))]).reverse()])}Z`,
      }),
      svg("path", { class: "rule", d: path([[at.x(0), at.y(0)], [at.x(1), at.y(1)]]) }),
      svg("path", { class: "line", d: path(points.map(([x, y]) => [at.x(x), at.y(y)])) }),
      points.map(([x, y]) => svg("circle", { class: "point", cx: at.x(x), cy: at.y(y), r: 3.2 })),
    ],
  });
  return figure({
    title: `Reliability, on ${count(scores.rows)} ${report.holdout ? "held-out" : "left-out"} rows`,
    plot,
    good: `On the dashed line the error bars mean what they say. The shaded band is what chance does with ${count(scores.rows)} rows (95%); ${off ? `${off} of ${points.length} points are outside of it` : "every point is inside of it"}.`,
    head: ["promised", "found"],
    rows: points,
    file: "reliability.csv",
  });
}

function residuals(rows, target) {
  const errors = rows.target.map((truth, row) => truth - rows.mean[row]);
  const half = rows.mean.map((mean, row) => Math.max(rows.upper[row] - mean, mean - rows.lower[row]));
  const range = rangeOf(rows.mean.flatMap((mean, row) => [errors[row], rows.lower[row] - mean, rows.upper[row] - mean]));
  const order = rows.mean.map((_, row) => row).sort((a, b) => rows.mean[a] - rows.mean[b]);
  const bias = errors.reduce((sum, value) => sum + value, 0) / errors.length;
  const plot = chart({
    x: { range: rangeOf(rows.mean), label: `predicted ${target}` },
    y: { range, label: "truth − prediction" },
    label: `Residuals over predicted ${target}; their mean is ${number(bias)}`,
    draw: (at) => [
      order.map((row) => svg("line", { class: endsOf(rows), x1: at.x(rows.mean[row]), x2: at.x(rows.mean[row]), y1: at.y(rows.lower[row] - rows.mean[row]), y2: at.y(rows.upper[row] - rows.mean[row]) })),
      svg("line", { class: "rule", x1: at.box.left, x2: at.box.right, y1: at.y(0), y2: at.y(0) }),
      order.map((row) => (Math.abs(errors[row]) > half[row] ? diamond(at.x(rows.mean[row]), at.y(errors[row])) : svg("circle", { class: "point", cx: at.x(rows.mean[row]), cy: at.y(errors[row]), r: 2.2 }))),
    ],
  });
  return figure({
    title: `Residuals over the prediction, ${kindOf(rows)}`,
    key: [h("span", { class: "key-mean" }, "● residual, │ its 95% interval"), "   ", h("span", { class: "key-truth" }, "◆ outside of it")],
    plot,
    good: `A cloud around nought without a shape is good. Their mean is ${number(bias)} ${target}; where the cloud is wider, the bars should be longer.`,
    head: [`predicted ${target}`, "residual"],
    rows: order.map((row) => [rows.mean[row], errors[row]]),
    file: "residuals.csv",
  });
}

function importance({ spread, features, rows, shares }, { target, hyperparameters }) {
  const share = new Map(shares.columns.map((each) => [each.name, each]));
  const shown = features.slice(0, MOST_BARS);
  const most = shown[0]?.importance || 1;
  const bars = h(
    "ul",
    { class: "bars" },
    shown.map(({ name, importance: value }) =>
      h("li", {}, h("span", { class: "bar-name" }, name), svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "bar-line", "aria-hidden": "true" }, svg("rect", { class: "bar", width: Math.max(0.6, (100 * value) / most), height: 8, rx: 1 })), h("span", { class: "bar-value" }, number(value, most / 10))),
    ),
  );
  const rest = features.length > shown.length ? ` The first ${shown.length} of ${features.length}.` : "";
  return figure({
    title: `How far each column moves the predicted ${target}`,
    plot: bars,
    good: `In the target's unit: how much the prediction changes if this column's cells are shuffled between ${count(rows)} rows; all columns together spread it by ${number(spread)}. ${sharesOf(shares)}It says what the model looks at, not what causes what. Columns that move together share their part, and shuffling them makes rows that may not exist.${rest}`,
    head: ["column", `moves ${target} by`, "share of the variance, alone", "share with what it does together with others", "lengthscale, in standard deviations"],
    rows: features.map(({ name, importance: value }) => [name, value, share.get(name)?.alone ?? null, share.get(name)?.with_others ?? null, hyperparameters.lengthscales[name] ?? null]),
    file: "importance.csv",
  });
}

// What the first column does alone and together with others.
function sharesOf({ columns }) {
  const [first] = columns;
  if (!first || !(first.with_others > 0)) return "";
  return `If columns were independent, ${first.name} would make ${percent(first.alone, 0)} of the variance alone and ${percent(first.with_others, 0)} with what it does together with others. `;
}

function scoreTable(report, target) {
  const found = [["held-out rows", report.holdout], ["left out one by one", report.leave_one_out]].filter(([, scores]) => scores);
  const rows = found.map(([name, scores]) => [
    name,
    count(scores.rows),
    score(scores.rmse),
    scores.nmse === null ? "–" : percent(1 - scores.nmse),
    score(scores.nlpd),
    ...["0.5", "0.8", "0.95"].map((level) => percent(scores.coverage[level])),
    score(scores.mean_width["0.95"]),
  ]);
  return h(
    "section",
    {},
    h("h2", {}, "In numbers"),
    table("Scores", ["Measured on", "Rows", `RMSE, ${target}`, "Variance explained", "NLPD", "in 50%", "in 80%", "in 95%", "Mean width of 95%"], rows, { numeric: [1, 2, 3, 4, 5, 6, 7, 8], hideCaption: true }),
  );
}

function partTable(report, target) {
  const { parts = [], worst } = report.local_coverage ?? {};
  if (!parts.length) return null;
  const rows = parts.map((part) => [part.by === "std" ? "length of the error bar" : part.column, part.lowest === undefined || part.lowest === null ? "" : `${number(part.lowest)} to ${number(part.highest)}`, count(part.rows), percent(part.coverage)]);
  return h(
    "section",
    {},
    h("h2", {}, "Where the 95% intervals hold"),
    h("p", { class: "quiet" }, `Left-out rows in parts. ${worst ? `${worst[0].toUpperCase()}${worst.slice(1)}.` : ""}`),
    h("details", {}, h("summary", {}, plural(rows.length, "part")), table(`Coverage of ${target} by part`, ["By", "From, to", "Rows", "Inside of 95%"], rows, { numeric: [2, 3], hideCaption: true })),
  );
}
