// Whether the shots agree: how far the others put the keypoints of each from where a person marked them.

import * as api from "./api.js";

const FAR = 0.15; // of the box's side, in the mean: a shot that is further off teaches something else

export function createAgreement(store, finder) {
  let checked = null; // the prompt that was asked about
  const found = new Map(); // photo → sentence

  const sentence = ({ distance, worst }) => {
    const most = worst.length ? `, most of all ${worst.map((k) => store.doc.names[k]).join(", ")}` : "";
    return `The other shots put its keypoints ${Math.round(100 * distance)} % of the object away${most}. Look at its marks.`;
  };

  return {
    /** Why a shot does not go with the others, or null. */
    disagrees: (photo) => (finder.prompt && checked === finder.prompt.id && found.get(photo)) || null,

    /** Ask about all shots of the prompt there is; resolves when all are known. */
    async check() {
      const id = finder.prompt?.id;
      if (!id || id === checked || store.doc.shots.length < 2) return;
      found.clear();
      for await (const shot of api.checkShots(id)) if (shot.distance > FAR) found.set(shot.photo, sentence(shot));
      checked = id;
    },
  };
}
