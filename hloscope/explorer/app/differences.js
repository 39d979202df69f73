// What is different from an older program: a list of changes, each leads to its instruction.

const SIGNS = { removed: "−", added: "+", changed: "~" };
const MOST = 500; // changes that are elements of the page

H.differences = (program, found, choose) => {
  const parts = [];
  const counts = Object.entries(found.counts).filter(([, count]) => count);
  const told = found.same ? "The two programs are the same by structure." : counts.map(([kind, count]) => `${H.number(count)} ${kind}`).join(", ");
  parts.push(H.el("p", "note", `Against ${found.file}: ${told}`));
  for (const { what, before, after } of found.header) parts.push(H.el("div", "change changed", H.el("span", "sign", "~"), aspect(what, before, after)));
  let left = MOST;
  for (const part of found.computations) {
    const names = [...new Set([part.before, part.after].filter((name) => name !== null))].join(" → ");
    const alone = part.before === null ? "only in the newer program" : part.after === null ? "only in the older program" : `${H.number(part.in_both)} instructions are in both`;
    if (left > 0) parts.push(H.el("h4", "", H.el("span", "mono", names), H.el("span", "note", ` ${alone}`)));
    for (const change of part.changes.slice(0, Math.max(0, left))) parts.push(line(program, part, change, choose));
    left -= part.changes.length;
  }
  if (left < 0) parts.push(H.el("p", "note", `and ${H.number(-left)} changes more`));
  return H.el("div", "differences", ...parts);
};

const aspect = (what, before, after) => H.el("span", "aspect", H.el("span", "mono", what), ": ", H.el("del", "mono", short(before)), " → ", H.el("ins", "mono", short(after)));

const short = (text) => (text === null ? "none" : text.length > 160 ? `${text.slice(0, 159)}…` : text);

function line(program, part, change, choose) {
  const ins = change.after || change.before;
  const k = change.after ? program.find(`${encodeURIComponent(part.after)}/${encodeURIComponent(ins.name)}`) : -1;
  const name = k < 0 ? H.el("span", "mono", ins.name) : H.button("link mono", ins.name, () => choose(k));
  const renamed = change.before && change.after && change.before.name !== change.after.name ? H.el("span", "note", ` (was ${change.before.name})`) : null;
  return H.el("div", `change ${change.kind}`, H.el("span", "sign", SIGNS[change.kind]), name, renamed, " ",
    H.el("span", "type mono", short(ins.type)), " ", H.el("span", "opcode mono", ins.opcode),
    ...change.aspects.map(({ what, before, after }) => H.el("div", "aspects", aspect(what, before, after))));
}
