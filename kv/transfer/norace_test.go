//go:build !race

package transfer_test

const raceOn = false
