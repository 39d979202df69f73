// The memory sheet of the overview: live bytes over the schedule, who holds the peak, and what lowers it.

const GROUPED = { group: "Like buffers", source: "Source line", scope: "Scope", kind: "Kind" };

// The shapes of the picture, as `hloscope memory --format svg` draws them; one with an instruction leads to it.
function picture({ title, width, height, shapes }, choose) {
  const drawn = shapes.map(([tag, attributes, text, tip, k]) => {
    const shape = H.svg(tag, attributes, ...(tip ? [H.svg("title", {}, tip)] : []), text);
    if (k < 0) return shape;
    shape.classList.add("leads");
    shape.addEventListener("click", () => choose(k));
    return shape;
  });
  const attributes = { class: "hm", role: "img", viewBox: `0 0 ${width} ${height}`, width, height };
  return H.svg("svg", attributes, H.svg("title", {}, title), ...drawn);
}

// What the sheet consists of; `by` is the grouping shown, and `regroup` takes another one.
H.memorySheet = (memory, { by, regroup, choose }) => {
  const choices = Object.entries(GROUPED).map(([name, title]) => H.button(name === by ? "choice on" : "choice", title, () => regroup(name)));
  const held = memory.tables ? [
    H.el("div", "wide", picture(memory.picture, choose)),
    H.el("h2", "", "Who holds the peak"),
    H.el("div", "orders", ...choices),
    H.leadingTable(memory.tables[by], choose),
  ] : [];
  return [
    ...memory.lines.map((line) => H.el("p", "facts-line mono", line)),
    ...held,
    memory.answers.length ? H.el("h2", "", "What would help") : null,
    ...memory.answers.map((line) => H.el("p", "finding", line)),
    ...memory.notes.map((note) => H.el("p", "note", note)),
  ];
};
