// Solves a proof of work: finds the number that, appended to the salt, has the given SHA-256. It has its own SHA-256
// (FIPS 180-4), because browsers offer theirs only over HTTPS. The salt is hashed once; each try is one or two blocks.
"use strict";

const k = new Int32Array(64);
const first = new Int32Array(8);
{
  // The constants are the first 32 bits of the fractional parts of square and cube roots of primes.
  const part = (x) => ((x - Math.floor(x)) * 4294967296) | 0;
  const isPrime = (n) => {
    for (let d = 2; d * d <= n; d++) if (n % d === 0) return false;
    return true;
  };
  for (let n = 2, i = 0; i < 64; n++) {
    if (!isPrime(n)) continue;
    if (i < 8) first[i] = part(Math.sqrt(n));
    k[i] = part(Math.cbrt(n));
    i++;
  }
}

const w = new Int32Array(64);

// block takes 64 bytes into the state.
function block(state, bytes, at) {
  for (let i = 0; i < 16; i++, at += 4) {
    w[i] = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
  }
  for (let i = 16; i < 64; i++) {
    const x = w[i - 15], y = w[i - 2];
    const s0 = (x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3;
    const s1 = (y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10;
    w[i] = (w[i - 16] + w[i - 7] + s0 + s1) | 0;
  }

  let a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
  for (let i = 0; i < 64; i++) {
    const s1 = (e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7);
    const s0 = (a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10);
    const t = (h + s1 + (e & f ^ ~e & g) + k[i] + w[i]) | 0;
    const u = (s0 + (a & b ^ a & c ^ b & c)) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t) | 0;
    d = c;
    c = b;
    b = a;
    a = (t + u) | 0;
  }

  state[0] += a;
  state[1] += b;
  state[2] += c;
  state[3] += d;
  state[4] += e;
  state[5] += f;
  state[6] += g;
  state[7] += h;
}

function solve({ salt, challenge, maxnumber }) {
  const text = new TextEncoder().encode(salt);
  const whole = text.length - text.length % 64;
  const start = first.slice(), state = new Int32Array(8), want = new Int32Array(8);
  for (let at = 0; at < whole; at += 64) block(start, text, at);
  for (let i = 0; i < 8; i++) want[i] = parseInt(challenge.slice(8 * i, 8 * i + 8), 16) | 0;

  const rest = text.subarray(whole);
  const bytes = new Uint8Array(128);
  for (let n = 0; n <= maxnumber; n++) {
    bytes.fill(0);
    bytes.set(rest);
    const digits = String(n);
    for (let i = 0; i < digits.length; i++) bytes[rest.length + i] = digits.charCodeAt(i);
    const end = rest.length + digits.length;
    const bits = (whole + end) * 8;
    bytes[end] = 0x80;
    const size = end < 56 ? 64 : 128;
    for (let i = 0; i < 4; i++) bytes[size - 1 - i] = bits >>> 8 * i;
    state.set(start);
    block(state, bytes, 0);
    if (size === 128) block(state, bytes, 64);
    let same = true;
    for (let i = 0; same && i < 8; i++) same = state[i] === want[i];
    if (same) return n;
  }
  return -1;
}

onmessage = (e) => postMessage(solve(e.data));
