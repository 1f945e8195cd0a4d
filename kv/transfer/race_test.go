//go:build race

package transfer_test

const raceOn = true
