// Options of a training: what has to be said is in sight, the rest is folded.

import { field, h, newId, select, show } from "./dom.js";
import { plural } from "./format.js";

const EFFORTS = [
  ["quick", "Quick: one sparse model, seconds"],
  ["normal", "Normal: the best of several models"],
  ["best", "Best: the same, searched for longer"],
];
const KERNELS = [
  ["", "Whichever predicts best"],
  ["gaussian", "Gaussian: very smooth"],
  ["matern52", "Matérn 5/2: smooth"],
  ["matern32", "Matérn 3/2: rougher"],
  ["matern12", "Matérn 1/2: roughest"],
];
const METHODS = "batch dmax kappa sb info rand nlml nlpp vfe variance loo-cve nlgpp gpe".split(" ");
const TRANSFORMS = [
  ["auto", "Whichever predicts best"],
  ["none", "As it is"],
  ["log", "Its logarithm"],
  ["log1p", "Logarithm of 1 + target"],
  ["yeo-johnson", "Yeo-Johnson"],
  ["rank-normal", "Its ranks"],
];

const INPUTS = [
  ["auto", "Whichever predicts best"],
  ["none", "As they are"],
  ["yeo-johnson", "Long tails drawn in (Yeo-Johnson)"],
];

/** Fields of the specification: `body` to show, `spec()` what was chosen, `missing(columns, several)` which have holes, and whether several targets are picked. */
export function trainOptions(dataset) {
  const name = h("input", { type: "text", maxlength: 64, pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]*", placeholder: stem(dataset.name) });
  const effort = select(EFFORTS, "normal");
  const kernel = select(KERNELS, "");
  const method = select([["", "The default (batch)"], ...METHODS.map((value) => [value, value])], "");
  const size = h("input", { type: "number", min: 1, step: 1, placeholder: "automatic" });
  const holdout = h("input", { type: "number", min: 0, max: 90, step: 1, value: 10 });
  const transform = select(TRANSFORMS, "auto");
  const inputs = select(INPUTS, "auto");
  const columns = dataset.columns.filter((column) => column.type !== "empty").map((column) => [column.name, column.name]);
  const groups = select([["", "Rows stand alone"], ...columns], "");
  const order = select([["", "Rows come in no order"], ...columns], "");
  const weights = select([["", "All rows count the same"], ...columns], "");
  const holes = h("div", { "aria-live": "polite" });
  const group = newId("missing");
  let choice = "impute";
  let asked = false;
  let onlyDrop = false;

  function missing(columns, several) {
    onlyDrop = several;
    asked = columns.length > 0;
    if (!asked) return void show(holes);
    const cells = columns.reduce((sum, column) => sum + column.missing, 0);
    const one = (value, text, hint, disabled = false) => {
      const id = newId("choice");
      return h(
        "div",
        { class: "choice" },
        h("input", { type: "radio", name: group, id, value, disabled, checked: (several ? "drop" : choice) === value, onchange: () => (choice = value) }),
        h("label", { for: id }, text, h("span", { class: "hint" }, hint)),
      );
    };
    show(
      holes,
      h(
        "fieldset",
        {},
        h("legend", {}, `${plural(cells, "cell")} ${cells === 1 ? "is" : "are"} missing, in ${columns.map((column) => column.name).slice(0, 4).join(", ")}${columns.length > 4 ? " and others" : ""}`),
        one("impute", "Keep these rows", several ? "For one target only, so far: predict one column to choose this." : "A prediction then takes into account everything such a cell may have been. New rows may have holes too.", several),
        one("drop", "Leave these rows out", "New rows need every cell."),
      ),
    );
  }

  function spec() {
    const found = { effort: effort.value };
    if (name.value.trim()) found.model = name.value.trim();
    if (asked) found.missing = onlyDrop ? "drop" : choice;
    if (kernel.value) found.kernel = kernel.value;
    if (method.value) found.method = method.value;
    if (size.value) found.basis_size = Number(size.value);
    if (Number(holdout.value) !== 10 && holdout.value !== "") found.holdout = Number(holdout.value) / 100;
    if (transform.value !== "auto") found.target_transform = transform.value;
    if (inputs.value !== "auto") found.input_transform = inputs.value;
    if (groups.value) found.groups = groups.value;
    if (order.value) found.order = order.value;
    if (weights.value) found.weights = weights.value;
    return found;
  }

  const body = h(
    "div",
    {},
    holes,
    h("div", { class: "fields" }, field("Name of the model", name, "Letters, digits, dot, dash. A name that exists gets a new version."), field("Effort", effort, "How many models are compared on rows that were left out.")),
    h(
      "details",
      { class: "advanced" },
      h("summary", {}, "Advanced"),
      h(
        "div",
        { class: "fields" },
        field("Kernel", kernel, "How quickly the target may change from row to row."),
        field("The target is learnt as", transform, "For a target that is skewed, such as prices."),
        field("Columns of numbers are learnt as", inputs, "For columns with long tails, such as incomes or counts."),
        field("New rows will be of other groups, told by", groups, "A patient, a shop, a batch: whole groups are left out to measure the error."),
        field("New rows will be later ones, told by", order, "A date or a number: the latest rows are left out to measure the error."),
        field("How much each row counts, told by", weights, "A number of measurements, or one over the variance of each: such rows have less noise. 0 leaves a row out."),
        field("Held-out rows, in %", holdout, "Kept back to measure the error; learnt from afterwards."),
        field("Sparse method", method, "How the rows that a sparse model rests on are chosen."),
        field("Size of the sparse model", size, "How many such rows; more is slower and often better."),
      ),
    ),
  );
  return { body, spec, missing };
}

function stem(filename) {
  return (filename || "").replace(/(\.[A-Za-z0-9]{1,8})+$/, "").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[-._]+|[-._]+$/g, "").slice(0, 64) || "model";
}
