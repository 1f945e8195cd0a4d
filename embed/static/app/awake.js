// The reader keeps the screen on while a recipe is open. It uses nothing of view.

// keepAwake keeps the screen on until the returned function is called: a cook's hands are wet.
export function keepAwake() {
  let lock = null, over = false;
  const ask = async () => {
    if (over || document.hidden) return;
    try {
      lock = await navigator.wakeLock?.request('screen');
      if (over) lock?.release();
    } catch { /* not allowed, for example with a low battery */ }
  };
  document.addEventListener('visibilitychange', ask);
  ask();
  return () => {
    over = true;
    document.removeEventListener('visibilitychange', ask);
    lock?.release();
  };
}
