//go:build race

package httpapi_test

// floodClients read from each path that is flooded, and as many do not. The race detector looks for races, not for
// memory.
const floodClients = 8
