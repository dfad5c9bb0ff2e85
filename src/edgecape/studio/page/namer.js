// A small field beside a new keypoint that asks for its name.

import { h, set } from "./dom.js";

/** rename(k, text, merge) is told what was typed; `last` is told to go back to the photo. */
export function createNamer(host, store, rename, last) {
  const input = h("input", {
    class: "namer",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "100",
    hidden: true,
  });
  let naming = null;
  const close = () => {
    if (!naming) return;
    const { k, merge } = naming;
    naming = null;
    input.hidden = true;
    if (k < store.doc.names.length) rename(k, input.value, merge);
    store.show({}); // its name is written beside it again
  };
  input.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key !== "Enter" && event.key !== "Escape") return;
    event.preventDefault();
    if (event.key === "Escape") input.value = "";
    close();
    last();
  };
  input.onblur = close;
  input.onpointerdown = (event) => event.stopPropagation();
  host.append(input);

  const namer = {
    close,
    /** The keypoint whose name is asked for, or null. */
    get keypoint() {
      return naming?.k ?? null;
    },
    open(k, merge, view) {
      naming = { k, merge };
      set(input, {
        value: "",
        placeholder: store.doc.names[k],
        "aria-label": `Name of keypoint ${k + 1}`,
        hidden: false,
      });
      namer.follow(view);
      input.focus({ preventScroll: true });
    },
    follow(view) {
      const point = naming && store.doc.shots[store.look.shot]?.points[naming.k];
      if (!point) return;
      const at = view.toScreen(point);
      input.style.left = `${Math.min(Math.max(at.x + 16, 4), view.stage.width - 164)}px`;
      input.style.top = `${Math.min(Math.max(at.y - 18, 4), view.stage.height - 40)}px`;
    },
  };
  return namer;
}
