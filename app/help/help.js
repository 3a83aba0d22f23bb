// Search over the sections of all pages, and buttons that copy code. Without it the pages are whole.

const MOST = 12;
const field = document.getElementById("search");
const found = document.getElementById("found");
const chapters = document.getElementById("chapters");
const count = document.getElementById("found-count");
let loading = null;
let searches = 0;

async function load() {
  const answer = await fetch("sections.json");
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return (await answer.json()).map((section) => ({ ...section, words: `${section.title} ${section.text}`.toLowerCase() }));
}

/** Sections that have all the words; those with a word in their title come first. */
function matching(sections, words) {
  const having = sections.filter((section) => words.every((word) => section.words.includes(word)));
  const score = (section) => words.filter((word) => section.title.toLowerCase().includes(word)).length;
  return having.map((section) => [score(section), section]).sort(([a], [b]) => b - a).map(([, section]) => section);
}

/** A piece of the text around the first of the words. */
function excerpt(section, words) {
  const place = Math.max(0, section.text.toLowerCase().indexOf(words[0]) - 30);
  return `${place ? "… " : ""}${section.text.slice(place, place + 110)} …`;
}

function line(section, words) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  const more = document.createElement("small");
  link.href = section.address;
  link.textContent = section.title === section.page ? section.page : `${section.page}: ${section.title}`;
  more.textContent = excerpt(section, words);
  link.append(more);
  item.append(link);
  return item;
}

async function search() {
  const search = ++searches;
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  const searching = words.length > 0;
  chapters.hidden = searching;
  found.hidden = !searching;
  if (!searching) {
    count.textContent = "";
    return;
  }
  try {
    loading ??= load();
    const sections = await loading;
    if (search !== searches) return; // what is found for a later word stays, and the focus in it
    const all = matching(sections, words);
    found.replaceChildren(...all.slice(0, MOST).map((section) => line(section, words)));
    count.textContent = all.length === 1 ? "1 section found" : `${all.length} sections found`;
    if (!all.length) found.textContent = "Nothing found: try a shorter word.";
  } catch (error) {
    loading = null;
    found.textContent = `The search is not available: ${error.message}`;
  }
}

field.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  const writing = event.target instanceof HTMLInputElement;
  if (event.key === "/" && !writing) {
    event.preventDefault();
    field.focus();
  } else if (event.key === "Escape" && event.target === field) {
    field.value = "";
    search();
    field.blur();
  }
});

for (const block of document.querySelectorAll("pre")) {
  const frame = document.createElement("div");
  const button = document.createElement("button");
  frame.className = "code";
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.textContent);
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  });
  block.replaceWith(frame);
  frame.append(block, button);
}
