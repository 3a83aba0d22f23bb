// The API key: asked for where the server wants one, kept for this tab alone.

const PLACE = "pursuit-api-key";

const dialog = document.getElementById("key-dialog");
const input = document.getElementById("key-field");
const reason = document.getElementById("key-reason");
let waiting = null;

/** The key of this tab, null without one. */
export function currentKey() {
  return sessionStorage.getItem(PLACE);
}

/** Ask for a key; false if none is given. Several requests at once share one question. */
export function askForKey(why) {
  if (waiting === null) {
    reason.textContent = why || "This server asks for an API key. Whoever runs it has one for you.";
    input.value = "";
    waiting = new Promise((answer) => {
      dialog.addEventListener(
        "close",
        () => {
          waiting = null;
          answer(dialog.returnValue === "kept");
        },
        { once: true },
      );
    });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  }
  return waiting;
}

/** Wire the dialog and the button that opens it. changed: called where a key was given unasked. */
export function setUpKey(changed) {
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem(PLACE, input.value.trim());
    dialog.close("kept");
  });
  document.getElementById("key-cancel").addEventListener("click", () => dialog.close("none"));
  document.getElementById("key").addEventListener("click", async () => {
    const told = currentKey() ? "This tab has a key. Another one takes its place." : "Give a key where this server wants one.";
    if (await askForKey(told)) changed();
  });
}
