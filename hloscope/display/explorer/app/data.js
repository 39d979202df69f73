// The data of the page: compressed JSON in base64; each part is decoded at its first use.

H.head = JSON.parse(document.getElementById("head").textContent);

const promised = new Map();

function bytes(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const found = new Uint8Array(raw.length);
  for (let k = 0; k < raw.length; k++) found[k] = raw.charCodeAt(k);
  return found;
}

async function decoded(name) {
  const element = document.getElementById(`data-${name}`);
  const packed = new Blob([bytes(element.textContent.trim())]).stream();
  const text = await new Response(packed.pipeThrough(new DecompressionStream("gzip"))).text();
  element.textContent = ""; // free the memory: the decoded value is cached
  return JSON.parse(text);
}

// Does the page have this part?
H.has = (name) => document.getElementById(`data-${name}`) !== null;

// Returns a promise of one part of the data; null if the page was written without it.
H.load = (name) => {
  if (!promised.has(name)) promised.set(name, H.has(name) ? decoded(name) : Promise.resolve(null));
  return promised.get(name);
};

// An element with classes and children.  Strings become text nodes: nothing of a program is markup.
H.el = (tag, classes = "", ...children) => {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
};

H.button = (classes, text, press, title = "") => {
  const element = H.el("button", classes, text);
  element.type = "button";
  if (title) element.title = title;
  element.addEventListener("click", press);
  return element;
};

H.clear = (element, ...children) => element.replaceChildren(...children.flat().filter(Boolean));

H.number = (value) => (typeof value === "number" ? value.toLocaleString("en-US") : String(value));

H.count = (value, what) => `${H.number(value)} ${what}${value === 1 ? "" : "s"}`;

// A number with three significant digits, or with thousands separators from 1,000 on.
H.figure = (value) => (value < 1000 ? value.toPrecision(3) : H.number(Math.round(value)));

H.bytes = (count) => {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (count >= 1024 && k < units.length - 1) {
    count /= 1024;
    k++;
  }
  const digits = Math.max(0, 3 - Math.floor(Math.log10(count || 1))); // four significant digits, as in the tables
  return `${k ? Number(count.toFixed(digits)) : count} ${count === 1 && !k ? "byte" : units[k]}`;
};

H.percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
