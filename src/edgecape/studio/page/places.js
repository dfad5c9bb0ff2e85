// The address bar says what is looked at, so that Back goes back within the studio and a link leads to a photo.

/** #mark=PHOTO, #find, or #photo=PHOTO with &object=N for the second and further objects on it. */
export function createPlaces(store) {
  let going = false; // the address was changed by the browser, not by us

  function written() {
    const { doc, look } = store;
    if (look.tab === "mark") return doc.shots[look.shot] ? `#mark=${doc.shots[look.shot].photo}` : "#mark";
    const query = doc.queries[look.query];
    if (look.query === null || !query) return "#find";
    const objects = doc.queries.filter(({ photo }) => photo === query.photo);
    const number = objects.indexOf(query) + 1;
    return `#photo=${query.photo}${number > 1 ? `&object=${number}` : ""}`;
  }

  /** What an address asks to look at, as far as the project has it. */
  function read(hash) {
    const { doc } = store;
    const asked = new URLSearchParams(hash.slice(1));
    const shot = doc.shots.findIndex(({ photo }) => photo === asked.get("mark"));
    if (asked.has("mark")) return { tab: "mark", shot: Math.max(shot, 0), query: null, selected: null };
    const objects = [...doc.queries.keys()].filter((n) => doc.queries[n].photo === asked.get("photo"));
    const query = objects[(Number(asked.get("object")) || 1) - 1] ?? objects[0] ?? null;
    return asked.has("photo") || asked.has("find") ? { tab: "find", query, selected: null } : null;
  }

  function go() {
    const look = read(location.hash);
    if (!look) return;
    going = true;
    store.show(look);
    going = false;
  }

  const kind = (hash) => hash.split("=")[0];
  return {
    start() {
      go();
      history.replaceState(null, "", location.pathname + written());
      addEventListener("popstate", go);
      store.subscribe(() => {
        const [now, next] = [location.hash, written()];
        if (now === next || going) return;
        if (kind(now) === kind(next)) history.replaceState(null, "", next);
        else history.pushState(null, "", next);
      });
    },
  };
}
