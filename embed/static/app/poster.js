// Posters: small versions of what the server cannot decode. The browser makes one of a film, of a picture that it
// shows, or of the preview in the raw file of a camera, and sends it. It owns nothing that stays, and uses nothing of
// view. uploads.js and replace.js call sendPoster, the viewer restorePoster.
import { h } from './dom.js';
import { updateRows } from './list.js';
import { base } from './session.js';

const filmEdge = 960, pictureEdge = 1600;
const mostBytes = 512 << 10; // of a poster, as the server takes it
const patience = 10e3;

// ways are how a poster is encoded; the first that is small enough is sent. A drawing often has clear parts, which only
// PNG keeps.
const jpeg = (edge, quality) => ({ type: 'image/jpeg', edge, quality });
const ways = [jpeg(pictureEdge, 0.85), jpeg(pictureEdge, 0.7), jpeg(filmEdge, 0.7)];
const waysOfDrawings = [{ type: 'image/png', edge: filmEdge }, ...ways];
const waysOfFilms = [jpeg(filmEdge, 0.85), jpeg(filmEdge, 0.6)];

// encode draws a picture of a size, turned by the orientation of EXIF, and returns the bytes of it.
function encode(picture, width, height, orientation, { type, edge, quality }) {
  const scale = Math.min(1, edge / Math.max(width, height));
  const w = Math.max(1, Math.round(width * scale)), across = Math.max(1, Math.round(height * scale));
  const lies = orientation > 4;
  const canvas = h('canvas', { width: lies ? across : w, height: lies ? w : across });
  const context = canvas.getContext('2d');
  if (type === 'image/jpeg') {
    context.fillStyle = '#fff';
    context.fillRect(0, 0, canvas.width, canvas.height);
  }
  const turns = {
    2: [-1, 0, 0, 1, w, 0], 3: [-1, 0, 0, -1, w, across], 4: [1, 0, 0, -1, 0, across], 5: [0, 1, 1, 0, 0, 0],
    6: [0, 1, -1, 0, across, 0], 7: [0, -1, -1, 0, across, w], 8: [0, -1, 1, 0, 0, w],
  };
  if (turns[orientation]) context.setTransform(...turns[orientation]);
  context.drawImage(picture, 0, 0, w, across);
  return new Promise((done) => { canvas.toBlob(done, type, quality); });
}

// send sends a poster. It does nothing if none is small enough.
async function send(r, picture, { width, height, orientation = 1, by }) {
  for (const way of by) {
    const body = await encode(picture, width, height, orientation, way);
    if (!body || body.size > mostBytes) continue;
    const headers = { 'content-type': 'application/octet-stream' };
    const at = `${base}/api/v1/files/${r.slug}/poster?sha256=${r.sha256}`; // the file may have other bytes by now
    const answer = await fetch(at, { method: 'PUT', headers, body });
    if (answer.ok) updateRows(r);
    return;
  }
}

const sendFrame = (r, video) => send(r, video, { width: video.videoWidth, height: video.videoHeight, by: waysOfFilms });
const sendImage = (r, img, orientation) => send(r, img, {
  width: img.naturalWidth, height: img.naturalHeight, orientation,
  by: /avif|svg/.test(r.mimeType) ? waysOfDrawings : ways,
});

// next waits for an event of an element, and fails after an error.
const next = (el, event) => new Promise((done, fail) => {
  for (const [name, then] of [[event, done], ['error', fail]]) el.addEventListener(name, then, { once: true });
  setTimeout(fail, patience);
});

// withAddress runs use with an address of a file of this device, which may not know its type.
async function withAddress(file, type, use) {
  const src = URL.createObjectURL(new Blob([file], { type }));
  try {
    await use(src);
  } finally { URL.revokeObjectURL(src); }
}

// ofFilm sends a picture of a film. The first second of many films is black.
async function ofFilm(r, src) {
  const video = h('video', { preload: 'auto', playsinline: true });
  video.muted = true;
  video.src = src;
  await next(video, 'loadeddata');
  if (video.duration > 2 && video.duration < Infinity) {
    video.currentTime = 1;
    await next(video, 'seeked');
  }
  await sendFrame(r, video);
}

async function ofPicture(r, src, orientation) {
  const img = h('img', { src });
  await next(img, 'load');
  await sendImage(r, img, orientation);
}

// ---- Raw files of cameras ----

const rawHead = 1 << 20; // in which a raw file says where its preview is
const mostParts = 20; // that are looked at
const tags = { offset: 0x111, length: 0x117, orientation: 0x112, inner: 0x14a, jpegAt: 0x201, jpegBytes: 0x202 };

// previewOf finds the largest JPEG in a raw file that is a TIFF, as DNG, CR2, NEF and ARW are, and how it lies. It is
// null if the file has none (TIFF 6.0, section 2; TIFF/EP, section 5.2).
async function previewOf(file) {
  const data = new DataView(await file.slice(0, rawHead).arrayBuffer());
  if (data.byteLength < 8) return null;
  const order = data.getUint16(0), little = order === 0x4949;
  if (!little && order !== 0x4d4d) return null;

  const short = (at) => data.getUint16(at, little), long = (at) => data.getUint32(at, little);
  const left = [long(4)], seen = new Set();
  let orientation = 1, best = null;
  while (left.length && seen.size < mostParts) {
    const at = left.shift();
    if (seen.has(at) || at < 8 || at + 2 > data.byteLength) continue;
    seen.add(at);
    const n = short(at), values = {};
    if (at + 6 + 12 * n > data.byteLength) continue;
    for (let entry = at + 2; entry < at + 2 + 12 * n; entry += 12) {
      const tag = short(entry), isShort = short(entry + 2) === 3, count = long(entry + 4), value = long(entry + 8);
      if (count === 1) values[tag] = isShort ? short(entry + 8) : value;
      if (tag !== tags.inner || count < 2) continue;
      const end = Math.min(value + 4 * Math.min(count, 8), data.byteLength - 3);
      for (let place = value; place < end; place += 4) left.push(long(place));
    }
    if (values[tags.inner]) left.push(values[tags.inner]);
    left.push(long(at + 2 + 12 * n));
    left.splice(mostParts); // a hostile file names half a million in each
    if (seen.size === 1) orientation = values[tags.orientation] ?? 1;
    for (const [from, length] of [[tags.jpegAt, tags.jpegBytes], [tags.offset, tags.length]]) {
      const found = { at: values[from], length: values[length] };
      if (found.at && found.length > (best?.length ?? 0) && await isJPEG(file, found)) best = found;
    }
  }
  return best && { orientation, jpeg: file.slice(best.at, best.at + best.length) };
}

// isJPEG reports whether the bytes there are a JPEG that browsers decode, which one of lossless pixels is not.
async function isJPEG(file, { at, length }) {
  if (at + length > file.size) return false;
  const b = new Uint8Array(await file.slice(at, at + Math.min(length, 64 << 10)).arrayBuffer());
  if (b[0] !== 0xff || b[1] !== 0xd8) return false;
  for (let i = 2; i + 4 < b.length && b[i] === 0xff;) {
    if ([0xc0, 0xc1, 0xc2].includes(b[i + 1])) return true;
    if (b[i + 1] === 0xc3) return false;
    i += 2 + (b[i + 2] << 8 | b[i + 3]);
  }
  return false;
}

async function ofRaw(r, file) {
  const preview = await previewOf(file);
  if (preview) await withAddress(preview.jpeg, 'image/jpeg', (src) => ofPicture(r, src, preview.orientation));
}

// ---- Sending and restoring ----

// One at a time: pictures are large while they are decoded.
let turn = Promise.resolve();

// inTurn makes a poster if the server has no small version. What this browser cannot show gets none.
function inTurn(r, make) {
  turn = turn.then(async () => {
    try {
      if ((await fetch(`${base}/t/${r.slug}`)).status === 204) await make();
    } catch { /* no poster */ }
  });
  return turn;
}

// sendPoster sends a small version of a file that was uploaded.
export const sendPoster = (r, file) => inTurn(r, async () => {
  if (/^video\//.test(r.mimeType)) return withAddress(file, r.mimeType, (src) => ofFilm(r, src));
  try {
    return await withAddress(file, r.mimeType, (src) => ofPicture(r, src, 1));
  } catch { return ofRaw(r, file); }
});

// restorePoster sends the picture that the viewer shows, in an img or a video, if the server has none. It cannot if
// that comes from another origin.
export const restorePoster = (r, shown) =>
  inTurn(r, () => (shown.matches('video') ? sendFrame(r, shown) : sendImage(r, shown, 1)));
