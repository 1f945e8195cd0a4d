//go:build !race

package httpapi

// much is the size of the upload whose memory is measured.
const much = 256 << 20

const raceEnabled = false
