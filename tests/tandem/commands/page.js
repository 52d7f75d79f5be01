// node page.js FILE: runs the scripts of a page as a browser does, and prints the text that is then on it. A script that throws ends
// it with an error. The document is a small one: elements keep their children and attributes, nothing has a size.
const text = require("fs").readFileSync(process.argv[2], "utf8");

class Element {
  constructor(tag) { Object.assign(this, { tag, children: [], attributes: {}, style: {}, dataset: {}, hidden: false, value: "" }); }
  get classList() { return { add() {}, remove() {}, toggle() {}, contains: () => false }; }
  get firstChild() { return this.children[0]; }
  get textContent() { return this.children.map((child) => (child instanceof Element ? child.textContent : child)).join(" "); }
  set textContent(value) { this.children = [String(value)]; }
  append(...children) { this.children.push(...children.map((child) => (child instanceof Element ? child : String(child)))); }
  appendChild(child) { this.append(child); return child; }
  prepend(...children) { this.children.unshift(...children); }
  insertBefore(child) { this.prepend(child); }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  getAttribute(name) { return this.attributes[name] ?? null; }
  addEventListener() {}
  remove() {}
  querySelector() { return null; }
  querySelectorAll() { return []; }
  getBoundingClientRect() { return { left: 0, top: 0, width: 1000, height: 300 }; }
  getContext() { return new Proxy({}, { get: (_, name) => (name === "measureText" ? () => ({ width: 10 }) : () => {}), set: () => true }); }
}

const known = {};
const document = {
  documentElement: new Element("html"), body: new Element("body"), addEventListener() {},
  createElement: (tag) => new Element(tag), createElementNS: (_, tag) => new Element(tag), createTextNode: String,
  getElementById: (id) => (known[id] ??= new Element(id)),
};
const scripts = [...text.matchAll(/<script([^>]*)>([\s\S]*?)<\/script>/g)];
for (const [, attributes, content] of scripts)
  if (attributes.includes("id=\"data\"")) document.getElementById("data").textContent = content;
const code = scripts.filter(([, attributes]) => !attributes.includes("id=\"data\"")).map(([, , content]) => content).join("\n");
const browser = {
  document, innerWidth: 1200, innerHeight: 800, devicePixelRatio: 1, addEventListener() {}, requestAnimationFrame: (draw) => draw(),
  getComputedStyle: () => ({ getPropertyValue: () => "#000000" }), matchMedia: () => ({ matches: false, addEventListener() {} }),
  ResizeObserver: class { observe() {} },
};
new Function("window", ...Object.keys(browser), code)(browser, ...Object.values(browser));
/// Labels that end at a place of a drawing must begin in it. Most characters are at least 6 wide.
function checkLabels(element) {
  if (!(element instanceof Element)) return;
  const label = element.tag === "text" && element.attributes["text-anchor"] === "end" ? element.textContent : "";
  if (label && 6 * label.length > Number(element.attributes.x)) throw new Error(`label ${label} begins left of its drawing`);
  element.children.forEach(checkLabels);
}
checkLabels(known.page);
console.log(known.page.textContent);
