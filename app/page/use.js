// Use: code with this model's columns in it, to copy.

import { announce, h } from "./dom.js";

export async function view({ model, detail }) {
  const base = new URL(".", document.baseURI).href.replace(/\/$/, "");
  const columns = detail.report.columns.filter((column) => column.kind !== "unused");
  const row = Object.fromEntries(columns.map((column) => [column.name, column.typical ?? column.levels?.[0] ?? 0]));
  const rowText = JSON.stringify(row);
  const key = sessionStorage.getItem("pursuit-api-key") ? ' -H "Authorization: Bearer $PURSUIT_API_KEY"' : "";
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const name = model.name;
  const snippets = [
    ["One row, by curl", `curl -s ${base}/predict${key} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify({ model: name, rows: [row], interval: 0.95 }))}`],
    ["A file, by curl", `curl -s '${base}/predict?model=${name}&interval=0.95'${key} -H 'Content-Type: text/csv' -H 'Accept: text/csv' --data-binary @table.csv`],
    ["Python", python(base, name, row, key)],
    ["Python, without a server", local(name, detail.version, row)],
    ["Python, by HTTP alone", http(base, name, row, key)],
    ["Open Inference Protocol (V2)", v2(base, name, columns, row, key)],
    ["Command line", `pursuit predict ${name} table.csv --url ${base}`],
  ];
  return {
    body: [
      h("p", {}, `Every answer has the mean, the standard deviation and the interval of a new ${detail.target}, noise included. “${name}” is the version in use; “${name}@${detail.version}” is always this one.`),
      snippets.map(([title, code]) => snippet(title, code)),
      h("p", {}, "Every address and field: ", h("a", { href: "docs" }, "API"), "."),
      h("details", {}, h("summary", {}, "The row in these examples"), h("pre", { tabindex: 0 }, JSON.stringify(JSON.parse(rowText), null, 2))),
    ],
  };
}

function python(base, name, row, key) {
  return `from pursuit import Client  # pip install pursuit-gp

with Client(${JSON.stringify(base)}) as client:${key ? "  # its key: PURSUIT_API_KEY of the environment" : ""}
    model = client.model(${JSON.stringify(name)})
    print(model.predict([${pythonText(row)}]))  # or a frame of pandas or polars`;
}

function local(name, version, row) {
  return `from pursuit import load  # the file is under “Versions”, “Download”

print(load("${name}-${version}.safetensors").predict([${pythonText(row)}]))`;
}

function http(base, name, row, key) {
  return `${key ? "import os\n\n" : ""}import httpx

answer = httpx.post(
    "${base}/predict",
    json={"model": ${JSON.stringify(name)}, "rows": [${pythonText(row)}], "interval": 0.95},${key ? '\n    headers={"Authorization": "Bearer " + os.environ["PURSUIT_API_KEY"]},' : ""}
)
answer.raise_for_status()
print(answer.json()["mean"], answer.json()["lower"], answer.json()["upper"])`;
}

function pythonText(row) {
  const cell = (value) => (value === true ? "True" : value === false ? "False" : JSON.stringify(value));
  return `{${Object.entries(row).map(([name, value]) => `${JSON.stringify(name)}: ${cell(value)}`).join(", ")}}`;
}

function v2(base, name, columns, row, key) {
  const inputs = columns.map((column) => {
    const value = row[column.name];
    const type = typeof value === "number" ? "FP64" : typeof value === "boolean" ? "BOOL" : "BYTES";
    return { name: column.name, shape: [1], datatype: type, data: [value] };
  });
  return `curl -s ${base}/v2/models/${name}/infer${key} -H 'Content-Type: application/json' -d '${JSON.stringify({ inputs }).replaceAll("'", "'\\''")}'`;
}

function snippet(title, code) {
  const button = h("button", { type: "button", "aria-label": `Copy: ${title}`, onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(code);
      button.textContent = "Copied";
      announce(`${title}: copied`);
    } catch {
      getSelection().selectAllChildren(text);
      button.textContent = "Selected: copy it with the keyboard";
    }
    setTimeout(() => (button.textContent = "Copy"), 3000);
  }
  const text = h("pre", { tabindex: 0, "aria-label": title }, h("code", {}, code));
  return h("section", { class: "snippet" }, h("div", { class: "snippet-head" }, h("h3", {}, title), button), text);
}
