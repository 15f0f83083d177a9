// What the pages gain from scripts: they follow what happens, rows can be ticked in bulk, and keys work.
// Everything here is an addition: without it, links and forms do the same. Nothing is drawn here either:
// a page that changed is fetched again, and its content swapped.

const byId = (id) => document.getElementById(id);
const all = (selector) => [...document.querySelectorAll(selector)];

// --- following what happens ----------------------------------------------------------------

const SOON = 300;
const BETWEEN = 2000;
const live = byId("live");
let missed = false; // something happened that is not shown yet
let fetching = false;
let lastFetch = 0;
let timer = 0;
let online = false;
let follows = false; // whether this page follows what happens at all

function isField(element) {
  return element?.matches("input:not([type=checkbox]), textarea, select") ?? false;
}

// Why the page must not change under the person's hands; empty when it may.
function held() {
  if (ticked().length > 0 || everything()?.checked) return "rows are ticked";
  if (isField(document.activeElement)) return "a field is in use";
  if (all("#content input[name=note]").some((input) => input.value !== "")) return "a field is in use";
  if (byId("keys")?.open) return "keys are shown";
  const selection = getSelection();
  if (selection && !selection.isCollapsed) return "text is selected";
  return "";
}

function showState() {
  if (!live || !follows) return;
  const reason = held();
  const state = !online ? "off" : missed && reason ? "held" : "on";
  live.hidden = false;
  live.dataset.state = state;
  live.textContent = { off: "not live", held: "held", on: "live" }[state];
  live.title =
    state === "off" ? "No connection to the server: what is shown may be old. It is tried again by itself."
    : state === "held" ? `There is something new; it is shown when you are done (${reason}).`
    : "This page follows what happens by itself.";
}

function follow() {
  missed = true;
  if (!held() && !timer && !fetching) {
    const due = Math.max(SOON, lastFetch + BETWEEN - Date.now());
    timer = setTimeout(refresh, due);
  }
  showState();
}

async function refresh() {
  timer = 0;
  if (held() || fetching || document.hidden) return showState();
  fetching = true;
  missed = false;
  lastFetch = Date.now();
  try {
    const answer = await fetch(location.href, { headers: { accept: "text/html" }, cache: "no-store" });
    if (answer.redirected && new URL(answer.url).pathname === "/login") return location.assign(answer.url);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    // The person may have begun something in the meantime.
    if (held()) missed = true;
    else swap(fresh);
  } catch {
    online = false;
  } finally {
    fetching = false;
    showState();
    if (missed) follow();
  }
}

function swap(fresh) {
  const old = byId("content");
  const next = fresh.getElementById("content");
  if (!old || !next) return;
  if (old.dataset.swapOn !== undefined && old.dataset.swapOn === next.dataset.swapOn) return;
  const row = document.activeElement?.closest("[data-row]")?.dataset.row;
  const current = document.querySelector("[data-row].current")?.dataset.row;
  const before = old.dataset.state;
  old.replaceWith(document.adoptNode(next));
  prepare();
  const find = (name) => all("[data-row]").find((found) => found.dataset.row === name);
  if (current) find(current)?.classList.add("current");
  if (row) find(row)?.querySelector("a.main")?.focus({ preventScroll: true });
  if (before && next.dataset.state !== before) say(`Operation ${next.dataset.operation} is ${next.dataset.state}.`);
}

let lastSaid = 0;
function say(text) {
  const now = Date.now();
  if (now - lastSaid < 5000 && !text.startsWith("Operation")) return;
  lastSaid = now;
  byId("said").textContent = text;
}

let lastWaiting;
function listen() {
  if (!byId("content")?.hasAttribute("data-live") || !window.EventSource) return;
  const source = new EventSource("/ui/stream");
  follows = true;
  source.addEventListener("open", () => {
    // What happened while there was no connection is not told again.
    if (!online && missed) follow();
    online = true;
    showState();
  });
  source.addEventListener("beat", (event) => {
    const { waiting } = JSON.parse(event.data);
    if (lastWaiting !== undefined && waiting !== null && waiting !== lastWaiting) {
      say(waiting === 1 ? "1 letter waits." : `${waiting} letters wait.`);
    }
    lastWaiting = waiting ?? lastWaiting;
    follow();
  });
  source.addEventListener("error", () => {
    online = false;
    missed = true;
    showState();
  });
  addEventListener("pagehide", () => source.close());
}

for (const kind of ["focusout", "change", "selectionchange", "close"]) {
  document.addEventListener(kind, () => setTimeout(() => (missed ? follow() : showState()), 0), true);
}
document.addEventListener("visibilitychange", () => missed && follow());

// Times go on.
function ago(seconds) {
  if (Math.abs(seconds) < 5) return "just now";
  if (seconds < 0) return "in the future";
  const [size, unit] =
    seconds < 60 ? [1, "s"] : seconds < 3600 ? [60, "min"] : seconds < 172800 ? [3600, "h"] : [86400, "d"];
  return `${Math.floor(seconds / size)} ${unit} ago`;
}
setInterval(() => {
  for (const time of all("time[datetime][title$=UTC]")) {
    time.textContent = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
  }
}, 5000);

// --- ticking rows --------------------------------------------------------------------------

const boxes = () => all("[data-select] input[name=id]");
const ticked = () => boxes().filter((box) => box.checked);
const everything = () => document.querySelector("[data-select] input[name=everything]");
let lastBox;

function countTicked() {
  const chosen = document.querySelector("[data-chosen]");
  if (!chosen) return;
  const many = ticked().length;
  const whole = everything().checked;
  chosen.textContent = whole ? "All that match:" : many === 0 ? "Nothing is ticked:" : `${many} ticked:`;
  for (const button of all("[data-select] button[name=action]")) button.disabled = many === 0 && !whole;
  for (const box of boxes()) box.closest("tr").classList.toggle("ticked", box.checked || whole);
  const allBox = document.querySelector("[data-tick-all]");
  allBox.checked = many > 0 && many === boxes().length;
  allBox.indeterminate = many > 0 && many < boxes().length;
}

document.addEventListener("click", (event) => {
  const box = event.target;
  if (!box.matches?.("[data-select] input[name=id]")) return;
  const list = boxes();
  const [from, to] = [list.indexOf(lastBox), list.indexOf(box)].sort((a, b) => a - b);
  if (event.shiftKey && from >= 0) for (const between of list.slice(from, to + 1)) between.checked = box.checked;
  lastBox = box;
  countTicked();
});

document.addEventListener("change", (event) => {
  if (event.target.matches("[data-tick-all]")) for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.closest?.("[data-select]")) countTicked();
});

// --- keys ----------------------------------------------------------------------------------

const rows = () => all("[data-row]");

function currentRow() {
  return document.activeElement?.closest("[data-row]") ?? document.querySelector("[data-row].current");
}

function move(step) {
  const list = rows();
  if (list.length === 0) return;
  const at = list.indexOf(currentRow());
  const next = list[at < 0 ? (step > 0 ? 0 : list.length - 1) : Math.min(Math.max(at + step, 0), list.length - 1)];
  for (const row of list) row.classList.toggle("current", row === next);
  next.querySelector("a.main")?.focus();
  next.scrollIntoView({ block: "nearest" });
}

function tick() {
  const box = currentRow()?.querySelector("input[name=id]");
  if (!box) return;
  box.checked = !box.checked;
  lastBox = box;
  countTicked();
}

function redrive() {
  const select = document.querySelector("[data-select]");
  const button = select?.querySelector("[data-key=r]");
  if (button) {
    if (ticked().length === 0 && !everything().checked) {
      if (!currentRow()) return;
      tick();
    }
    return select.requestSubmit(button);
  }
  const own = currentRow()?.querySelector("[data-key=r]");
  if (own) return own.click();
  const one = document.querySelector(".acts [data-key=r]");
  if (!one) return;
  // One key must not send anything: it takes Enter, too.
  one.focus();
  say("Press Enter to redrive this letter.");
}

function edit() {
  const to = currentRow()?.dataset.edit ?? document.querySelector(".acts [data-key=e]")?.href;
  if (to) location.assign(to);
}

function filter() {
  const field = byId("q");
  if (!field) return location.assign("/letters#q");
  field.focus();
  field.select();
}

const KEYS = {
  j: () => move(1),
  k: () => move(-1),
  x: tick,
  r: redrive,
  e: edit,
  "/": filter,
  "?": () => byId("keys")?.showModal(),
};

document.addEventListener("keydown", (event) => {
  const element = document.activeElement;
  if (event.key === "Escape" && isField(element)) return element.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || isField(element) || byId("keys")?.open) return;
  const act = KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// --- forms ---------------------------------------------------------------------------------

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog") return;
  // Later: what is disabled now would not be sent.
  setTimeout(() => {
    form.setAttribute("aria-busy", "true");
    for (const button of form.querySelectorAll("button")) button.disabled = true;
  }, 0);
});
addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

function prepare() {
  for (const label of all(".tick-all")) label.hidden = false;
  countTicked();
}

prepare();
listen();
if (location.hash === "#q") byId("q")?.focus();
