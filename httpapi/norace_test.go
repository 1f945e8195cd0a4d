//go:build !race

package httpapi

// much is the size of the upload whose memory is measured.
const much = 256 << 20

// floodClients read from each path that is flooded, and as many do not.
const floodClients = 64

const raceEnabled = false
