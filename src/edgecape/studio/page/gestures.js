// Mouse, pen and fingers, told apart: tap, drag, pan, pinch, wheel. Knows nothing of photos.

const STEADY = { mouse: 3, pen: 5, touch: 8 }; // how far a tap may wander, in pixels

/**
 * Listen on an element. All places are pixels from its top-left corner.
 *   tap(place, event)            pressed and let go at one place
 *   grab(place, event)           a drag begins: { move(place), end(place), cancel() }, or null to pan instead
 *   pan(dx, dy), pinch(before, after), wheel(place, event), hover(place | null, event)
 */
export function listen(element, { tap, grab, pan, pinch, wheel, hover }) {
  const pressed = new Map(); // pointer id → place
  let press = null; // the one finger or button that may become a tap or a drag

  const placeOf = (event) => {
    const frame = element.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };

  element.addEventListener("pointerdown", (event) => {
    if (event.button > 1) return;
    const place = placeOf(event);
    element.setPointerCapture(event.pointerId);
    pressed.set(event.pointerId, place);
    if (pressed.size === 1)
      press = { start: place, last: place, id: event.pointerId, event, middle: event.button === 1 };
    else {
      press?.drag?.cancel?.();
      press = null; // a second finger: pinch, and no tap when they lift
    }
    if (event.button === 1) event.preventDefault(); // no automatic scrolling
  });

  element.addEventListener("pointermove", (event) => {
    const place = placeOf(event);
    if (!pressed.has(event.pointerId)) return hover?.(place, event);
    const before = [...pressed.values()];
    pressed.set(event.pointerId, place);
    if (pressed.size === 2) return pinch(before, [...pressed.values()]);
    if (!press) return;
    const steady = STEADY[event.pointerType] ?? STEADY.mouse;
    if (!press.moving && Math.hypot(place.x - press.start.x, place.y - press.start.y) <= steady) return;
    if (!press.moving) {
      press.moving = true;
      press.drag = press.middle ? null : grab(press.start, press.event);
    }
    if (press.drag) press.drag.move(place);
    else pan(place.x - press.last.x, place.y - press.last.y);
    press.last = place;
  });

  const lift = (event, dropped) => {
    if (!pressed.delete(event.pointerId)) return;
    const place = placeOf(event);
    const ended = press;
    if (!pressed.size) press = null;
    if (!ended || ended.id !== event.pointerId) return;
    if (!dropped) ended.drag?.cancel?.();
    else if (ended.moving) ended.drag?.end?.(place);
    else if (!ended.middle) tap(ended.start, event);
  };
  element.addEventListener("pointerup", (event) => lift(event, true));
  element.addEventListener("pointercancel", (event) => lift(event, false));
  element.addEventListener("pointerleave", (event) => hover?.(null, event));
  element.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      wheel(placeOf(event), event);
    },
    { passive: false },
  );
}
