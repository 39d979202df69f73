// The whole page: selection, address, keys.

const state = { k: -1, asked: null };
H.state = state;

const TABS = { program: "Program", source: "Source", op_name: "Scope" };
const THEMES = ["", "light", "dark"];

async function start() {
  const program = await H.readProgram();
  const view = build(program);
  H.view = view;
  if (!restore(program, view)) {
    const k = first(program);
    if (k < 0) H.clear(view.middle, H.el("p", "empty", "The program has no instructions."));
    else if (view.overview.isThere) await overview(view);
    else select(k, { quietly: true });
  }
  document.documentElement.dataset.ready = "yes";
  requestAnimationFrame(() => (H.painted = performance.now()));
}

const BUNDLES = ["tuple", "return", "get-tuple-element", "get_tuple_element"];

// The instruction of a page without an overview: the result of the entry with most elements.
function first(program) {
  if (program.entry < 0) return program.count ? 0 : -1;
  const [, start, count, root] = program.computations[program.entry];
  if (root < 0) return count ? start : -1;
  const size = (leaf) => (H.shapeOf(leaf) || [0]).reduce((a, b) => a * b, 1);
  const elements = (k) => (program.readsOf(k).length ? program.typeOf(k).leaves.reduce((sum, leaf) => sum + size(leaf), 0) : 0);
  let best = root;
  let most = -1;
  const seen = new Set([root]);
  for (const k of seen) { // the loop also visits values that are added on the way
    if (BUNDLES.includes(program.opcodeOf(k)) && program.operandsOf(k).length) {
      for (const operand of program.operandsOf(k)) seen.add(operand);
    } else if (elements(k) > most) [best, most] = [k, elements(k)];
  }
  return best;
}

function build(program) {
  const choose = (k) => select(k);
  const view = { program };
  view.rows = new H.Rows(program, { choose });
  view.graph = new H.Graph(program, { choose });
  view.elements = new H.Elements(program, { choose, pinned });
  view.maps = new H.Maps(program, { choose });
  view.verdicts = new H.Verdicts(program, { choose });
  view.overview = new H.Overview(program, { choose });
  view.about = new H.About(program, { choose, filter: (text) => filter(view, text) });
  view.search = H.el("input", "search");
  Object.assign(view.search, { type: "search", placeholder: "Search   /", spellcheck: false });
  view.search.setAttribute("aria-label", "search");
  view.search.addEventListener("input", () => view.rows.search(view.search.value).then(() => count(view)));
  view.found = H.el("span", "note found");
  view.path = H.el("nav", "path");
  view.tabs = H.el("div", "tabs");
  view.left = H.el("aside", "left", view.search, view.tabs, view.rows.element, view.found);
  view.overview.element.hidden = true;
  view.middle = H.el("main", "middle", view.path, view.graph.element, H.el("div", "divider"), view.elements.element);
  view.right = H.el("aside", "right", view.about.element, view.maps.element, view.verdicts.element);
  const header = H.el("header", "", H.button("brand", "hloscope", () => overview(view), "the overview (h)"), H.el("span", "title", H.head.title), H.el("span", "note", told()),
    H.el("span", "space"), H.button("icon", "◐", theme, "light or dark (t)"), H.button("icon", "?", H.help, "keys (?)"));
  H.clear(document.getElementById("app"), header, H.el("div", "columns", view.left, splitter(view, "left"), view.middle, splitter(view, "right"), view.right, view.overview.element));
  const tabs = H.has("diff") ? { ...TABS, diff: "Changes" } : TABS;
  for (const [mode, name] of Object.entries(tabs)) view.tabs.append(tab(view, mode, name));
  (H.has("diff") ? view.tabs.lastChild : view.tabs.firstChild).click();
  return view;
}

// Show the overview in place of an instruction.
async function overview(view) {
  state.k = -1;
  view.rows.reveal(-1);
  await view.overview.show();
  showsOverview(view, true);
  document.title = `${H.head.title} · hloscope`;
  try {
    if (location.hash) history.pushState(null, "", "#");
  } catch {
    // The frame of a notebook has no address.
  }
}

function showsOverview(view, isShown) {
  view.overview.element.hidden = !isShown;
  document.documentElement.classList.toggle("at-overview", isShown);
}

function told() {
  const { language, instructions, computations, file } = H.head;
  return `${language}, ${H.count(instructions, "instruction")} in ${H.count(computations, "computation")}, ${file}`;
}

function tab(view, mode, name) {
  const button = H.button("tab", name, async () => {
    for (const other of view.tabs.children) other.classList.toggle("on", other === button);
    view.changes?.remove();
    view.rows.element.hidden = mode === "diff";
    if (mode === "diff") {
      view.changes = H.differences(view.program, await H.load("diff"), select);
      view.left.insertBefore(view.changes, view.found);
    } else await view.rows.show(mode);
  });
  return button;
}

// A bar between two columns; dragging it changes their widths.
function splitter(view, side) {
  const bar = H.el("div", "splitter");
  bar.addEventListener("pointerdown", (event) => {
    bar.setPointerCapture(event.pointerId);
    const move = ({ clientX }) => {
      const width = side === "left" ? clientX : window.innerWidth - clientX;
      document.documentElement.style.setProperty(`--${side}`, `${Math.max(160, Math.min(window.innerWidth * 0.6, width))}px`);
    };
    bar.addEventListener("pointermove", move);
    bar.addEventListener("pointerup", () => {
      bar.removeEventListener("pointermove", move);
      if (state.k >= 0) select(state.k, { asked: state.asked, quietly: true });
    }, { once: true });
  });
  return bar;
}

function filter(view, text) {
  view.search.value = text;
  view.rows.search(text).then(() => count(view));
}

const count = (view) => (view.found.textContent = view.rows.words.length ? `${H.number(view.rows.list.length)} found` : "");

// ---------------------------------------------------------------------------------- selection

async function select(k, { asked = null, quietly = false } = {}) {
  const { view } = H;
  const isNew = k !== state.k;
  showsOverview(view, false);
  state.k = k;
  state.asked = asked;
  if (!quietly) remember(isNew);
  view.rows.reveal(k);
  path(view, k);
  view.graph.show(k);
  const [answers, details, kernels] = await Promise.all([H.load("answers"), H.load("details"), H.load("kernels")]);
  if (state.k !== k) return; // something else was selected meanwhile
  const answer = answers && answers.of[k] >= 0 ? answers.answers[answers.of[k]] : null;
  view.elements.show(k, answer, answers, asked?.at ? asked : asked && { ...asked, at: middle(k, asked.output) });
  view.maps.show(k, answer, answers, view.elements.output ?? 0);
  view.about.show(k, details);
  view.verdicts.show(k, kernels);
  if (isNew) for (const element of [view.right, view.right.parentNode]) element.scrollTop = 0;
}

const middle = (k, output) => (H.shapeOf(H.program.typeOf(k).leaves[output]) || []).map((size) => Math.floor(size / 2));

// An element was chosen: write it into the address. Another output draws all cards again.
function pinned(asked) {
  const { view } = H;
  if (asked.at === null || asked.output !== view.elements.output) {
    select(state.k, { asked });
    return;
  }
  state.asked = asked;
  remember(false);
}

// The callers of an instruction as links: entry › fusion.3 › add.1.
function path(view, k) {
  const { program } = view;
  const steps = [k];
  let c = program.computationOf[k];
  while (steps.length < 12 && program.callers.has(c)) {
    const [caller] = program.callers.get(c);
    steps.unshift(caller);
    c = program.computationOf[caller];
  }
  const parts = [view.overview.isThere ? H.button("link back", "‹ Overview", () => overview(view), "what costs most, memory (h)") : null, H.el("span", "note mono", program.computations[c][0])].filter(Boolean);
  for (const step of steps) parts.push(" › ", step === k ? H.el("b", "mono", program.name[step]) : H.button("link mono", program.name[step], () => select(step)));
  H.clear(view.path, parts.map((part) => (typeof part === "string" ? document.createTextNode(part) : part)));
}

// ------------------------------------------------------------------------------------ address

// #computation/instruction?out=0&at=1,2 or &from=0.0 for an element of operand 0.
function address() {
  const { asked } = state;
  const query = [];
  if (asked?.output) query.push(`out=${asked.output}`);
  if (asked?.operand !== undefined) query.push(`from=${asked.operand}.${asked.leaf}`);
  if (asked?.at?.length) query.push(`at=${asked.at.join(",")}`);
  return `#${H.program.address(state.k)}${query.length ? `?${query.join("&")}` : ""}`;
}

// Milliseconds between changes of the address: browsers ignore more than 200 in ten seconds, and a
// held key makes 300.
const APART = 100;

let untold = null;
let lastTold = -APART;

// Each selected instruction is a step of the history, except those left within `APART`.  The
// address changes after the elements are lit, because changing it takes longer than lighting them.
function remember(isNew) {
  if (!untold) requestAnimationFrame(() => setTimeout(tell, Math.max(0, lastTold + APART - performance.now())));
  untold = { place: address(), isStep: isNew || Boolean(untold?.isStep) };
}

function tell() {
  if (!untold) return;
  const { place, isStep } = untold;
  untold = null;
  lastTold = performance.now();
  try {
    history[isStep ? "pushState" : "replaceState"](null, "", place);
  } catch {
    // The frame of a notebook has no address.
  }
}

function restore(program, view) {
  const [place, query] = location.hash.slice(1).split("?");
  const k = place ? program.find(place) : -1;
  if (k < 0) {
    if (!place && view.overview.isThere && state.k >= 0) overview(view);
    return false;
  }
  const given = new URLSearchParams(query || "");
  const asked = { output: Number(given.get("out")) || 0 };
  const shapes = program.typeOf(k).leaves;
  if (asked.output >= shapes.length) asked.output = 0;
  let leaf = shapes[asked.output];
  if (given.has("from")) {
    const [operand, part] = given.get("from").split(".").map(Number);
    const value = program.readsOf(k)[operand];
    if (value !== undefined) {
      Object.assign(asked, { operand, leaf: part || 0 });
      leaf = program.typeOf(value).leaves[part || 0];
    }
  }
  const shape = H.shapeOf(leaf);
  const at = (given.get("at") || "").split(",").filter(Boolean).map(Number);
  const fits = shape && at.length === shape.length && at.every((i, d) => Number.isInteger(i) && i >= 0 && i < shape[d]);
  H.view = view;
  select(k, { asked: fits ? { ...asked, at } : null, quietly: true });
  return true;
}

window.addEventListener("popstate", () => H.view && restore(H.program, H.view));
window.addEventListener("hashchange", () => H.view && restore(H.program, H.view));

// --------------------------------------------------------------------------------------- keys

function theme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme || "") + 1) % THEMES.length];
  if (next) root.dataset.theme = next;
  else delete root.dataset.theme;
  recolour();
}

const recolour = () => H.recolour((H.view?.elements.cards || []).flatMap((card) => card.picture || []));

for (const query of ["(prefers-color-scheme: dark)", "print"]) window.matchMedia(query).addEventListener("change", recolour);
window.addEventListener("beforeprint", () => H.drawNow());

const go = (k) => k !== undefined && k >= 0 && select(k);

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const PRESSED = {
  "/": () => H.view.search.focus(),
  "?": () => H.help(),
  ArrowDown: () => go(H.view.rows.next(1)),
  ArrowUp: () => go(H.view.rows.next(-1)),
  j: () => go(H.view.rows.next(1)),
  k: () => go(H.view.rows.next(-1)),
  ArrowRight: () => H.view.rows.fold(true),
  ArrowLeft: () => H.view.rows.fold(false),
  u: () => go(H.program.operandsOf(state.k)[0]),
  d: () => go(H.program.usersOf(state.k)[0]),
  o: () => {
    const { maps } = H.view;
    const names = ["logical", "memory", "linear"];
    maps.order = names[(names.indexOf(maps.order) + 1) % names.length];
    maps.draw();
  },
  t: theme,
  h: () => H.view.overview.isThere && overview(H.view),
  m: () => H.has("memory") && overview(H.view).then(() => document.querySelector(".overview .memory").scrollIntoView()),
  Backspace: () => {
    tell();
    history.back();
  },
  Enter: () => H.view.rows.fold(true),
};

window.addEventListener("keydown", (event) => {
  if (!H.view || event.ctrlKey || event.metaKey || event.altKey) return;
  const { search, rows } = H.view;
  if (event.target === search) {
    if (event.key === "Enter") {
      const [row] = rows.list;
      go(rows.next(1) ?? row?.k);
      event.preventDefault();
    } else if (event.key === "Escape") {
      filter(H.view, "");
      rows.reveal(state.k);
      search.blur();
    }
    return;
  }
  if (event.target.closest("input, dialog, button")) return;
  if (event.shiftKey && ARROWS[event.key]) {
    H.view.elements.move(...ARROWS[event.key]);
    event.preventDefault();
  } else if (PRESSED[event.key]) {
    PRESSED[event.key]();
    event.preventDefault();
  }
});

start().catch((error) => {
  const app = document.getElementById("app");
  H.clear(app, H.el("p", "empty", `The page cannot be shown: ${error.message}`));
  document.documentElement.dataset.ready = "failed";
  throw error;
});
