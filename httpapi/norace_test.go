//go:build !race

package httpapi_test

// floodClients read from each path that is flooded, and as many do not.
const floodClients = 64
