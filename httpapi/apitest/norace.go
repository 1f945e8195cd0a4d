//go:build !race

package apitest

// RaceEnabled reports whether the race detector is on, with which times and memory are several times as large.
const RaceEnabled = false
