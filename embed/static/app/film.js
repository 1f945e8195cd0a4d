// Posters of films. The server cannot decode films, so the browser sends it one of their pictures. It owns nothing that
// stays, and uses nothing of view. uploads.js and replace.js call sendPoster, the viewer restorePoster.
import { h } from './dom.js';
import { updateRows } from './list.js';
import { base } from './session.js';

const edge = 960, patience = 10e3;

// sendFrame sends the picture that a video shows. A film that this browser cannot play gets none.
async function sendFrame(r, video) {
  const scale = Math.min(1, edge / Math.max(video.videoWidth, video.videoHeight));
  const width = Math.round(video.videoWidth * scale), height = Math.round(video.videoHeight * scale);
  const canvas = h('canvas', { width, height });
  canvas.getContext('2d').drawImage(video, 0, 0, canvas.width, canvas.height);
  const body = await new Promise((done) => { canvas.toBlob(done, 'image/jpeg', 0.85); });
  const headers = { 'content-type': 'application/octet-stream' };
  const answer = await fetch(`${base}/api/v1/files/${r.slug}/poster`, { method: 'PUT', headers, body });
  if (answer.ok) updateRows(r);
}

// sendPoster sends a picture of a file that was uploaded. The first second of many films is black.
export async function sendPoster(r, file) {
  const video = h('video', { preload: 'auto', playsinline: true });
  video.muted = true;
  const next = (event) => new Promise((done, fail) => {
    for (const [name, then] of [[event, done], ['error', fail]]) video.addEventListener(name, then, { once: true });
    setTimeout(fail, patience);
  });
  video.src = URL.createObjectURL(file);
  try {
    await next('loadeddata');
    if (video.duration > 2 && video.duration < Infinity) {
      video.currentTime = 1;
      await next('seeked');
    }
    await sendFrame(r, video);
  } catch { /* no poster */ } finally { URL.revokeObjectURL(video.src); }
}

// restorePoster sends the picture that the viewer shows if the server has none.
export async function restorePoster(r, video) {
  try {
    if ((await fetch(`${base}/t/${r.slug}`)).status === 204) await sendFrame(r, video);
  } catch { /* no poster, for example because the video comes from another origin */ }
}
