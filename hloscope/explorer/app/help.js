// The keys, in a dialog.

const KEYS = [
  ["/", "search: words, or op: name: in: shape: from: source: before a word"],
  ["Enter", "in the search: the next instruction that is found"],
  ["↑ ↓", "the instruction before, after; k and j as well"],
  ["← →", "fold, unfold what an instruction calls"],
  ["u d", "to the first operand, to the first user"],
  ["Shift + arrows", "move the chosen element along the last two dimensions"],
  ["o", "the maps in the next order: logical, memory, linear"],
  ["h", "the overview: what costs most, memory, what to do"],
  ["m", "its memory: what is live when"],
  ["t", "light, dark, as the system has it"],
  ["Backspace", "back to what was looked at before"],
  ["Esc", "leave the search, close this"],
  ["?", "this"],
];

H.help = () => {
  const dialog = H.el("dialog", "help",
    H.el("h2", "", "Keys"),
    H.el("dl", "keys", ...KEYS.flatMap(([key, what]) => [H.el("dt", "mono", key), H.el("dd", "", what)])),
    H.el("h2", "", "Elements"),
    H.el("p", "", "Point at a cell to light up what it reads; click to keep it. Point at an operand, and what it reaches lights up. A cell may be a block of elements: it asks about its first one, and says how many there are. A block that is lit in part is paler."),
    H.el("h2", "", "Claims"),
    H.el("p", "", "exact: precisely these elements. over: all of them and perhaps more, with the reason. unknown: any element may be touched. Verdicts about memory are those of a model of the device, which is named."),
    H.el("p", "", `Graphs are laid out by dagre ${dagre.version}, under the MIT licence, which stands in this file.`));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
};
