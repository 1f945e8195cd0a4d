//go:build race

package upload_test

// much is the size of the upload whose memory is measured; the race detector
// takes a minute for a larger one.
const much = 24 << 20
