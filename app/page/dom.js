// Elements from code: text is always text, so that no name or cell of a table can become markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes (`on..`: listeners; false, null: left out) and children (text, elements, lists). */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in node) node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) node.append(child);
  }
}

/** Put other children into a node. */
export function show(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

let made = 0;

/** A new id for a label, unique on the page. */
export function newId(stem) {
  made += 1;
  return `${stem}-${made}`;
}

/** A labelled field: label, control, and a hint that belongs to it. */
export function field(text, control, hint) {
  const id = newId("field");
  control.id = id;
  const told = hint ? h("span", { class: "hint", id: `${id}-hint` }, hint) : null;
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: id }, text), control, told);
}

/** A select of [value, text] pairs. */
export function select(options, chosen, attributes = {}) {
  const made = h("select", attributes, options.map(([value, text]) => h("option", { value }, text)));
  made.value = chosen;
  return made;
}

/** Tell a screen reader, without moving anything. */
export function announce(text) {
  const line = document.getElementById("announcer");
  if (line.textContent !== text) line.textContent = text;
}

/** A table that scrolls inside of itself where the window is narrow. head: texts; rows: lists of texts or elements. */
export function table(caption, head, rows, { numeric = [], rowHeads = true, hideCaption = false } = {}) {
  const kind = (column) => (numeric.includes(column) ? "number" : null);
  const scroll = h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: hideCaption ? "unseen" : null }, caption),
      h("thead", {}, h("tr", {}, head.map((text, column) => h("th", { scope: "col", class: kind(column) }, text)))),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            row.map((cell, column) =>
              rowHeads && column === 0
                ? h("th", { scope: "row" }, cell)
                : h("td", { class: kind(column) }, cell),
            ),
          ),
        ),
      ),
    ),
  );
  return scroll;
}
