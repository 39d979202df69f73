// Verdicts about kernels (warps, footprint, tiles, data movement), and facts about an instruction.

const FOLDED_FROM = 60; // characters of a config

const pair = (name, ...value) => [H.el("dt", "", name), H.el("dd", "", ...value)];
const facts = (...pairs) => H.el("dl", "facts", ...pairs.flat());

function table(head, rows) {
  const kind = (text) => (/^(≤ )?[\d,.]+( [KMGT]iB| bytes)?$/.test(text) ? "amount" : "");
  const cells = (tag, some) => some.map((cell) => (cell instanceof Node ? H.el(tag, "", cell) : H.el(tag, kind(cell), String(cell))));
  return H.el("table", "table", H.el("thead", "", H.el("tr", "", ...cells("th", head))),
    H.el("tbody", "", ...rows.map((row) => H.el("tr", "", ...cells("td", row)))));
}

// A share as a bar: used over transferred.
function bar(share) {
  const inner = H.el("span", share < 0.5 ? "bar bad" : share < 0.9 ? "bar fair" : "bar good");
  inner.style.width = `${Math.max(2, Math.min(100, 100 * share))}%`;
  return H.el("span", "meter", H.el("span", "track", inner), H.percent(share));
}

// Sectors are counted if the threads of an array are known; for Triton fusions tiles are judged.
const isCounted = (array) => array.efficiency !== undefined;

// The bytes transferred for an array: by requests of warps, or for the tiles of a Triton fusion.
function moved(array) {
  const bytes = isCounted(array) ? array.moved_bytes : array.tile?.moved_bytes;
  return bytes === undefined ? "not counted" : H.bytes(bytes);
}

// The cause of the unused share of an array.
function reason(array) {
  if (array.spoiler || array.reason) return array.spoiler || array.reason;
  if (!isCounted(array)) return array.tile ? `tiles of ${array.tile.sizes.join(" × ")}` : array.precision;
  if (!array.requests) return "not accessed";
  if (array.best !== undefined) return `at worst; ${H.percent(array.best)} at best: it depends on values read at run time`;
  return array.efficiency === 1 ? "no unused sectors" : `${H.figure(array.sectors / array.requests)} sectors for each request`;
}

// The verdict on a kernel, with the class of its colour.
function judged({ arrays, wasted_bytes: wasted }) {
  const most = arrays.some((array) => array.best !== undefined) ? "at most " : "";
  if (wasted) return ["warn", `${most}${H.bytes(wasted)} transferred and unused`];
  if (arrays.every(isCounted)) return ["fine", "no unused transfers"];
  const tiles = arrays.flatMap((array) => array.tile || []);
  if (!tiles.length) return ["", "unknown: no sectors are counted"];
  const least = Math.min(...tiles.map((tile) => tile.utilisation));
  return least < 1 ? ["warn", `tiles use ${H.percent(least)} of the bytes they transfer, at worst`] : ["fine", "tiles use all bytes they transfer"];
}

class Verdicts {
  constructor(program, { choose }) {
    this.program = program;
    this.choose = choose;
    this.element = H.el("div", "verdicts");
  }

  show(k, kernels) {
    const of = (subject) => {
      const number = kernels?.of[subject]?.[k] ?? -1;
      return number < 0 ? null : kernels.facts[number];
    };
    const told = { coalesce: of("coalesce"), footprint: of("footprint"), cancel: of("cancel"), tiles: of("tiles") };
    H.clear(
      this.element,
      told.coalesce && this.#coalescing(told.coalesce),
      told.footprint && this.#footprint(told.footprint),
      told.tiles && this.#tiles(told.tiles),
      told.cancel && this.#chain(told.cancel, k + kernels.from[k]),
      this.#caller(k, told),
    );
  }

  // An instruction inside a kernel: the verdicts are about the kernel.
  #caller(k, told) {
    const callers = this.program.callers.get(this.program.computationOf[k]) || [];
    const fusions = callers.filter((caller) => this.program.isFused.has(caller));
    if (!fusions.length || told.coalesce) return null;
    return H.section("Kernel", H.el("p", "note", "It is computed inside ", this.#link(fusions[0]), ", which has the verdicts."));
  }

  #link(k) {
    return k < 0 ? "?" : H.button("link mono", this.program.name[k], () => this.choose(k));
  }

  #array(k, { role, number }) {
    const value = role === "operand" ? this.program.operandsOf(k)[number] : undefined;
    return `${role} ${number}${value === undefined ? "" : ` ${this.program.name[value]}`}`;
  }

  #coalescing(found) {
    const title = "Coalescing";
    if (found.refused) return H.section(title, H.el("p", "note", `No verdict: ${found.refused}`));
    const k = H.state.k;
    const rows = found.arrays.map((array) => [
      this.#array(k, array),
      isCounted(array) && array.requests ? bar(array.efficiency) : array.tile ? bar(array.tile.utilisation) : "",
      moved(array),
      reason(array),
    ]);
    const [quality, verdict] = judged(found);
    return H.section(title,
      facts(pair("verdict", H.el("b", quality, verdict)), pair("model", found.model)),
      table(["array", "efficiency", "transferred", "cause"], rows),
      ...found.notes.map((note) => H.el("p", "note", note)));
  }

  #footprint(found) {
    const k = H.state.k;
    const most = found.exact ? "" : "at most ";
    const side = (role, some) => some.map((array) => [
      this.#array(k, { role, number: array.number }),
      `${array.exact ? "" : "≤ "}${H.bytes(array.bytes)}`,
      `${array.exact ? "" : "≤ "}${H.number(array.elements)}`,
      H.figure(array.reuse),
    ]);
    return H.section("Footprint",
      facts(pair("bytes", `${most}${H.bytes(found.read_bytes)} read, ${H.bytes(found.written_bytes)} written`),
        pair("work", `${H.number(found.flops)} flop${found.flops === 1 ? "" : "s"}, ${H.figure(found.intensity)} for each byte`),
        pair("runs", found.times === null ? "an unknown number of times" : `${H.number(found.times)} ×`)),
      table(["array", "footprint", "elements", "reuse"], [...side("operand", found.reads), ...side("output", found.writes)]),
      ...found.notes.map((note) => H.el("p", "note", note)));
  }

  #tiles(found) {
    if (found.refused) return H.section("Tiles", facts(pair("verdict", H.el("b", "warn", "refused"), " by XLA's tiling analysis"), pair("why", found.refused)));
    const list = (some) => H.el("span", "mono", some.join("  "));
    return H.section("Tiles",
      facts(pair("verdict", H.el("b", "fine", "can be tiled"), " by XLA's analysis"),
        pair("sizes", found.sizes.length ? list(found.sizes.map((size, d) => `d${d}: 1 to ${size}${d + 1 < found.sizes.length ? "," : ""}`)) : "a scalar"),
        ...(found.must.length ? [pair("constraints", list(found.must))] : []),
        ...(found.forgotten.length ? [pair("dropped by XLA", list(found.forgotten))] : [])));
  }

  // Instructions are given by their distance back from the sink of the chain.
  #chain(found, sink) {
    const link = (back) => this.#link(back === null ? -1 : sink - back);
    const links = (some) => some.slice(0, 12).flatMap((back, n) => (n ? [" → ", link(back)] : [link(back)]));
    const free = /no-op|bitcast/.test(found.verdict);
    return H.section("Data movement",
      facts(pair("verdict", H.el("b", free ? "fine" : "warn", found.verdict),
        found.bytes_moved ? `, moves ${H.bytes(found.bytes_moved)}, could save ${found.bytes_saved ? H.bytes(found.bytes_saved) : "nothing"}` : ""),
        pair("chain", ...links([...found.steps])),
        ...(found.moves_at === null ? [] : [pair("bytes move at", link(found.moves_at))]),
        ...found.sources.slice(0, 6).flatMap((source) => [pair("from", link(source.of), ` ${source.verdict}${source.proof ? ` (${source.proof})` : ""}${source.reason ? `: ${source.reason}` : ""}`)])));
  }
}

// The attributes with the value of `backend_config` folded: braces are counted outside of strings.
function folded(text) {
  const found = /backend_config=(?=[{"])/.exec(text);
  if (!found) return [text];
  const start = found.index + found[0].length;
  let depth = 0;
  let isQuoted = false;
  let end = start;
  do {
    const character = text[end++];
    if (character === "\\" && isQuoted) end++;
    else if (character === '"') isQuoted = !isQuoted;
    else if (!isQuoted && character === "{") depth++;
    else if (!isQuoted && character === "}") depth--;
  } while (end < text.length && (depth || isQuoted));
  if (end - start < FOLDED_FROM) return [text];
  const config = H.el("details", "config", H.el("summary", ""), text.slice(start, end));
  return [text.slice(0, start), config, text.slice(end)];
}

class About {
  constructor(program, { choose, filter }) {
    this.program = program;
    this.choose = choose;
    this.filter = filter;
    this.element = H.el("div", "about");
  }

  show(k, details) {
    const { program } = this;
    const text = details.texts[details.text[k]];
    const isMlir = H.head.language !== "HLO";
    const operands = program.operandsOf(k);
    const line = H.el("pre", "line mono");
    if (isMlir) {
      const piece = (part) => (typeof part === "string" ? part : part === k ? H.el("b", "", `%${program.name[k]}`) : H.button("link", `%${program.name[part]}`, () => this.choose(part)));
      const pieces = program.pieces(k, text);
      line.append(...pieces.slice(0, 257).map(piece));
      if (pieces.length > 257) line.append(` … ${H.number((pieces.length - 257) / 2)} more`);
    }
    else {
      line.append(H.el("b", "", program.name[k]), " = ", H.el("span", "type", program.typeText(k)), " ", H.el("span", "opcode", program.opcodeOf(k)), "(");
      operands.slice(0, 64).forEach((o, n) => line.append(...(n ? [", "] : []), H.button("link", program.name[o], () => this.choose(o))));
      if (operands.length > 64) line.append(`, … ${H.number(operands.length - 64)} more`);
      line.append(...folded(operands.length ? `)${text && !text.startsWith(",") ? ", " : ""}${text}` : text));
    }
    const name = details.op_names[details.op_name[k]];
    const trace = details.traces[details.trace[k]].map((frame) => details.frames[frame]);
    const called = program.calledBy(k);
    const callers = program.callers.get(program.computationOf[k]) || [];
    const pairs = [];
    if (name) pairs.push(pair("op_name", H.button("link mono", name, () => this.filter(`from:${name.replace(/\s+/g, " from:")}`), "find all of the same op_name")));
    if (trace.length) pairs.push(pair("source", ...trace.slice(0, 8).map(([place, inside], n) => H.el("div", n ? "frame outer" : "frame", n ? place : H.button("link mono", place, () => this.filter(`source:${place.split(/\s+/)[0]}`), "find all of the same line"), inside ? ` in ${inside}` : ""))));
    if (called.length) pairs.push(pair("calls", ...called.map((c) => H.el("div", "", program.computations[c][3] < 0 ? program.computations[c][0] : H.button("link mono", program.computations[c][0], () => this.choose(program.computations[c][3]))))));
    if (callers.length) pairs.push(pair("called by", ...callers.slice(0, 6).flatMap((caller) => [H.button("link mono", program.name[caller], () => this.choose(caller)), " "]), callers.length > 6 ? `and ${H.number(callers.length - 6)} more` : ""));
    pairs.push(pair("read by", `${H.number(program.usersOf(k).length)} instruction${program.usersOf(k).length === 1 ? "" : "s"}${program.isRoot(k) ? ", and it is the root" : ""}`));
    H.clear(this.element, line, facts(...pairs));
    this.k = k;
  }
}

H.Verdicts = Verdicts;
H.About = About;
