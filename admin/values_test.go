package admin_test

import (
	"testing"
	"time"

	"github.com/matryer/is"

	"kist/admin"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "90d": 90 * 24 * time.Hour,
	} {
		var s admin.Span
		is.NoErr(s.UnmarshalText([]byte(text)))
		is.Equal(time.Duration(s), want)
	}
	for _, text := range []string{"", "d", "90", "-1h", "-1d", "1.5d", "200000d", "soon"} {
		var s admin.Span
		is.True(s.UnmarshalText([]byte(text)) != nil) // refused
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]int64{
		"1": 1, "1048576": 1 << 20, "500MB": 500e6, "64KB": 64e3, "64kB": 64e3, "64KiB": 64 << 10, "5GiB": 5 << 30,
		"2 kib": 2048, "8388607TiB": 8388607 << 40,
	} {
		var s admin.Size
		is.NoErr(s.UnmarshalText([]byte(text)))
		is.Equal(int64(s), want)
	}
	for _, text := range []string{"", "0", "-1", "MB", "5G", "1.5GiB", "8388608TiB", "9223372036854775808"} {
		var s admin.Size
		is.True(s.UnmarshalText([]byte(text)) != nil) // refused
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]string{
		"10.1.2.3/8": "10.0.0.0/8", "192.0.2.1": "192.0.2.1/32", "::1": "::1/128", "fd00::/8": "fd00::/8",
		"::ffff:192.0.2.1": "192.0.2.1/32", "::ffff:10.1.2.3/104": "10.0.0.0/8", " 10.0.0.0/8": "10.0.0.0/8",
	} {
		var n admin.Network
		is.NoErr(n.UnmarshalText([]byte(text)))
		is.Equal(n.String(), want)
	}
	for _, text := range []string{"", "proxy", "10.0.0.0/33", "fe80::1%eth0"} {
		var n admin.Network
		is.True(n.UnmarshalText([]byte(text)) != nil) // refused
	}
}
