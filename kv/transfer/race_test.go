//go:build race

package transfer

const raceOn = true
