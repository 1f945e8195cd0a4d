// Zoom and swipes on the stage of the viewer: the wheel, two fingers and a double click or tap make the picture larger
// around where they are, and what is larger than the stage can be moved. A picture that is not larger follows the
// finger to the next one, or down to the end. It uses nothing of view. The viewer calls watchStage.
const mostZoom = 8;
const doubleZoom = 2.5;
const wheelPixels = 400; // that make a picture twice as large
const swipePixels = 50;
const clickPixels = 5; // a pointer that moves further does not click

// watchStage follows what pointers do on the stage of a dialog. move shows the picture before or after, and reports
// whether there is one; close ends the viewer.
export function watchStage(dialog, stage, { move, close }) {
  let el = null, zoom = 1, x = 0, y = 0; // of the picture that is shown
  let dragged = 0; // how far the pointers have moved since the first went down
  const down = new Map(); // the latest event of each pointer

  // picture is what can be made larger; null for a film. Another picture begins as it is.
  function picture() {
    const now = stage.firstElementChild;
    if (now !== el) {
      el = now;
      zoom = 1;
      x = y = 0;
    }
    return el?.matches('video') ? null : el;
  }

  function draw() {
    const box = stage.getBoundingClientRect();
    const within = (at, size) => Math.max(-size * (zoom - 1) / 2, Math.min(at, size * (zoom - 1) / 2));
    if (zoom > 1) {
      x = within(x, box.width);
      y = within(y, box.height);
    }
    el.style.transform = zoom > 1 || x || y ? `translate(${x}px, ${y}px) scale(${zoom})` : '';
    stage.classList.toggle('zoomed', zoom > 1);
  }

  function zoomAt({ clientX, clientY }, to) {
    const box = stage.getBoundingClientRect(), next = Math.max(1, Math.min(to, mostZoom));
    const fromX = clientX - box.left - box.width / 2, fromY = clientY - box.top - box.height / 2;
    x = next > 1 ? fromX - (fromX - x) * next / zoom : 0;
    y = next > 1 ? fromY - (fromY - y) * next / zoom : 0;
    zoom = next;
    draw();
  }

  // pinch moves and zooms by what one of two fingers has done. other is where the other one is.
  function pinch(before, now, other) {
    const reach = (a) => Math.hypot(a.clientX - other.clientX, a.clientY - other.clientY);
    const middle = (a) => ({ clientX: (a.clientX + other.clientX) / 2, clientY: (a.clientY + other.clientY) / 2 });
    x += middle(now).clientX - middle(before).clientX;
    y += middle(now).clientY - middle(before).clientY;
    zoomAt(middle(now), zoom * reach(now) / Math.max(1, reach(before)));
  }

  function release() {
    const [movedX, movedY] = [x, y];
    x = y = 0;
    draw();
    if (Math.abs(movedX) > swipePixels && Math.abs(movedX) > 2 * Math.abs(movedY)) move(movedX < 0 ? 1 : -1);
    else if (movedY > 2 * swipePixels && movedY > 2 * Math.abs(movedX)) close();
  }

  stage.addEventListener('wheel', (e) => {
    if (!picture()) return;
    e.preventDefault();
    zoomAt(e, zoom * 2 ** (-e.deltaY / wheelPixels));
  }, { passive: false });
  stage.addEventListener('dblclick', (e) => { if (picture()) zoomAt(e, zoom > 1 ? 1 : doubleZoom); });

  stage.addEventListener('pointerdown', (e) => {
    if (e.isPrimary) {
      down.clear();
      dragged = 0;
    }
    if (picture() && (e.pointerType !== 'mouse' || zoom > 1)) down.set(e.pointerId, e);
  });
  dialog.addEventListener('pointermove', (e) => {
    const before = down.get(e.pointerId);
    if (!before || !picture()) return;
    down.set(e.pointerId, e);
    const byX = e.clientX - before.clientX, byY = e.clientY - before.clientY;
    dragged += Math.abs(byX) + Math.abs(byY);
    const [other] = [...down.values()].filter((p) => p.pointerId !== e.pointerId);
    if (other) return pinch(before, e, other);
    x += byX;
    y += byY;
    return draw();
  });
  const up = (e) => {
    if (!down.delete(e.pointerId) || down.size || !picture() || zoom > 1) return;
    if (e.type === 'pointerup') return release();
    x = y = 0;
    draw();
  };
  dialog.addEventListener('pointerup', up);
  dialog.addEventListener('pointercancel', up);
  stage.addEventListener('click', (e) => {
    if (dragged > clickPixels || zoom > 1) e.stopImmediatePropagation();
  }, true);
}
