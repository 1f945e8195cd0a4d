//go:build race

package httpapi

// much is the size of the upload whose memory is measured; the race detector
// looks at every byte of it several times.
const much = 24 << 20

// floodClients read from each path that is flooded, and as many do not. The race detector looks for races, not for
// memory.
const floodClients = 8

const raceEnabled = true
