//go:build race

package httpapi

// much is the size of the upload whose memory is measured; the race detector
// looks at every byte of it several times.
const much = 24 << 20

const raceEnabled = true
