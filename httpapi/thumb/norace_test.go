//go:build !race

package thumb

const raceEnabled = false
