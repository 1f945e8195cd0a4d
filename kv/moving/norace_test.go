//go:build !race

package moving

const raceOn = false
