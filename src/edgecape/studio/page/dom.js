// Elements made and kept: three small functions instead of a framework.

const SVG = "http://www.w3.org/2000/svg";
const AS_PROPERTY = new Set(["value", "checked", "disabled", "hidden", "textContent", "files", "indeterminate"]);

/** Set attributes, properties, listeners (`onclick: fn`) and CSS variables (`"--score": 1`); null and false take an attribute away. */
export function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element[name] = value;
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (AS_PROPERTY.has(name) && element.namespaceURI !== SVG) {
      if (element[name] !== value) element[name] = value;
    } else if (value === null || value === undefined || value === false) element.removeAttribute(name);
    else {
      const text = value === true ? "" : String(value);
      if (element.getAttribute(name) !== text) element.setAttribute(name, text);
    }
  }
  return element;
}

/** An HTML element with attributes and children. */
export function h(tag, attributes = {}, ...children) {
  const element = set(document.createElement(tag), attributes);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An SVG element with attributes and children. */
export function s(tag, attributes = {}, ...children) {
  const element = set(document.createElementNS(SVG, tag), attributes);
  element.append(...children.flat());
  return element;
}

/** A line icon from the sheet in index.html; decoration, so hidden from screen readers. */
export function icon(name) {
  return s("svg", { class: "icon", "aria-hidden": "true" }, s("use", { href: `#icon-${name}` }));
}

/** A button that shows an icon and says its label. */
export function iconButton(name, label, onclick, attributes = {}) {
  return h(
    "button",
    { type: "button", class: "quiet", "aria-label": label, title: label, onclick, ...attributes },
    icon(name),
  );
}

/** One of a few, side by side; arrow keys go from one to the next. items: [{ value, label, about, icon }]. */
export function createChoice(name, items, pick) {
  const buttons = items.map(({ value, label, about, icon: picture }) => {
    const parts = [picture && icon(picture), h("span", {}, label)];
    return h("button", { type: "button", role: "radio", title: about ?? label, onclick: () => pick(value) }, parts);
  });
  const element = h("div", { class: "segments", role: "radiogroup", "aria-label": name }, buttons);
  element.onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    const next = step && buttons[(buttons.indexOf(event.target) + step + buttons.length) % buttons.length];
    if (!next) return;
    event.preventDefault();
    next.click();
    next.focus();
  };
  const show = (value) =>
    buttons.forEach((button, n) => {
      const chosen = items[n].value === value;
      set(button, { "aria-checked": String(chosen), tabindex: chosen ? "0" : "-1" });
    });
  return { element, show };
}

/**
 * Children of `parent`, one per item, kept from one rendering to the next so that focus and pointers stay where they
 * are. make() gives a new child, update(child, item, index) brings it up to date.
 */
export function pool(parent, make, update) {
  const children = [];
  return (items) => {
    while (children.length > items.length) children.pop().remove();
    while (children.length < items.length) {
      const child = make(children.length);
      children.push(child);
      parent.append(child);
    }
    items.forEach((item, index) => update(children[index], item, index));
    return children;
  };
}

/** A few controls of which one is in the tab order; arrow keys go from one to the next. `find` gives them. */
export function roving(host, find, { across = false } = {}) {
  const [back, forth] = across ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
  host.addEventListener("keydown", (event) => {
    const all = find();
    const at = all.indexOf(event.target);
    const last = all.length - 1;
    const to = { [back]: Math.max(at - 1, 0), [forth]: Math.min(at + 1, last), Home: 0, End: last }[event.key];
    if (at < 0 || to === undefined || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    for (const [n, control] of all.entries()) control.tabIndex = n === to ? 0 : -1;
    all[to].focus();
  });
}

/** A choice from a list, with its label: { element, show(value) }. options: [[value, text]]. */
export function createSelect(label, options, pick) {
  const id = `choice-${label.toLowerCase().replace(/\W+/g, "-")}`;
  const list = h("select", { id, onchange: () => pick(list.value) });
  const element = h("div", { class: "pick" }, h("label", { for: id }, label), list);
  let shown = "";
  const offer = (items) => {
    if (shown === String(items)) return;
    shown = String(items);
    list.replaceChildren(...items.map(([value, text]) => h("option", { value }, text)));
  };
  offer(options);
  return { element, offer, show: (value) => list.value !== value && (list.value = value) };
}

/** "1 photo", "3 photos". */
export function count(number, one, many = `${one}s`) {
  return `${number} ${number === 1 ? one : many}`;
}
