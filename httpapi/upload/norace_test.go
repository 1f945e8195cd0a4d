//go:build !race

package upload_test

// much is the size of the upload whose memory is measured.
const much = 256 << 20
