// Where the photo lies on the screen: the only place that turns photo pixels into screen pixels and back.
//
// Screen: CSS pixels from the stage's top-left corner. Photo: pixels of the upright photo from its top-left corner.
// screen = photo × scale + offset, for the drawing of the picture and of everything on it alike.

const MARGIN = 24; // room around a photo that fits the stage
const LARGEST = 40; // screen pixels per photo pixel
const ROUNDING = 100; // photo coordinates are kept to 1/100 pixel

export class Viewport {
  photo = { width: 1, height: 1 };
  stage = { width: 1, height: 1 };
  scale = 1;
  x = 0;
  y = 0;
  fitted = true; // stays whole when the stage changes size

  toScreen({ x, y }) {
    return { x: x * this.scale + this.x, y: y * this.scale + this.y };
  }

  toPhoto({ x, y }) {
    return { x: (x - this.x) / this.scale, y: (y - this.y) / this.scale };
  }

  /** The nearest place on the photo, rounded to what is kept. */
  onPhoto({ x, y }) {
    const limit = (value, most) => Math.round(Math.min(Math.max(value, 0), most) * ROUNDING) / ROUNDING;
    return { x: limit(x, this.photo.width), y: limit(y, this.photo.height) };
  }

  contains({ x, y }) {
    return x >= 0 && y >= 0 && x <= this.photo.width && y <= this.photo.height;
  }

  /** Another photo, shown whole. */
  show(photo) {
    this.photo = { width: photo.width, height: photo.height };
    this.fit();
  }

  resize(width, height) {
    const centre = this.toPhoto({ x: this.stage.width / 2, y: this.stage.height / 2 });
    this.stage = { width: Math.max(width, 1), height: Math.max(height, 1) };
    if (this.fitted) return this.fit();
    this.x = width / 2 - centre.x * this.scale;
    this.y = height / 2 - centre.y * this.scale;
  }

  get whole() {
    const margin = Math.min(MARGIN, this.stage.width / 8, this.stage.height / 8);
    const across = (this.stage.width - 2 * margin) / this.photo.width;
    const down = (this.stage.height - 2 * margin) / this.photo.height;
    return Math.min(across, down, LARGEST);
  }

  fit() {
    this.scale = this.whole;
    this.x = (this.stage.width - this.photo.width * this.scale) / 2;
    this.y = (this.stage.height - this.photo.height * this.scale) / 2;
    this.fitted = true;
  }

  /** Zoom by a factor with the photo held still under a place on the screen. */
  zoom(factor, at = { x: this.stage.width / 2, y: this.stage.height / 2 }) {
    const held = this.toPhoto(at);
    this.scale = Math.min(Math.max(this.scale * factor, this.whole / 4), LARGEST);
    this.x = at.x - held.x * this.scale;
    this.y = at.y - held.y * this.scale;
    this.fitted = false;
    this.keepInSight();
  }

  pan(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.fitted = false;
    this.keepInSight();
  }

  /** Two fingers moved: the photo stays under both. */
  pinch(before, after) {
    const middle = ([a, b]) => ({ x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 });
    const spread = ([a, b]) => Math.max(Math.hypot(a.x - b.x, a.y - b.y), 1);
    const [from, to] = [middle(before), middle(after)];
    this.pan(to.x - from.x, to.y - from.y);
    this.zoom(spread(after) / spread(before), to);
  }

  /** Some of the photo always stays on the stage. */
  keepInSight() {
    const edge = 48;
    this.x = Math.min(Math.max(this.x, edge - this.photo.width * this.scale), this.stage.width - edge);
    this.y = Math.min(Math.max(this.y, edge - this.photo.height * this.scale), this.stage.height - edge);
  }

  /** Pan just enough that a place of the photo can be seen. */
  reveal(place) {
    const at = this.toScreen(place);
    const inset = Math.min(MARGIN, this.stage.width / 4, this.stage.height / 4);
    const push = (value, size) => Math.max(inset - value, 0) + Math.min(size - inset - value, 0);
    const [dx, dy] = [push(at.x, this.stage.width), push(at.y, this.stage.height)];
    if ((dx || dy) && !this.fitted) this.pan(dx, dy);
  }

  get transform() {
    return `translate(${this.x}px, ${this.y}px) scale(${this.scale})`;
  }
}
