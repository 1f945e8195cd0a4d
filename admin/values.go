package admin

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Span is a length of time on the command line, as time.ParseDuration reads it or in
// whole days (90d).
type Span time.Duration

// UnmarshalText reads a span that is not negative.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if days, ok := strings.CutSuffix(string(text), "d"); ok {
		var n int64
		n, err = strconv.ParseInt(days, 10, 64)
		if n > int64(math.MaxInt64/(24*time.Hour)) {
			err = strconv.ErrRange
		}
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q must be a length of time such as 90d, 24h or 30s", text)
	}
	*s = Span(d)
	return nil
}

// Size is a number of bytes on the command line, plain or with a unit: powers of 1000
// (500MB) or of 1024 (5GiB).
type Size int64

var units = map[string]int64{
	"": 1, "b": 1,
	"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// UnmarshalText reads a size of at least one byte.
func (s *Size) UnmarshalText(text []byte) error {
	digits := strings.TrimRight(string(text), " abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, ok := units[strings.ToLower(strings.TrimSpace(string(text)[len(digits):]))]
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ok || n < 1 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q must be a number of bytes such as 500MB, 5GiB or 1048576", text)
	}
	*s = Size(n * unit)
	return nil
}

// Network is a range of addresses on the command line, or one address.
type Network struct{ netip.Prefix }

// UnmarshalText reads 10.0.0.0/8, 192.0.2.1 or the like.
func (n *Network) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	p, err := netip.ParsePrefix(t)
	if a, aErr := netip.ParseAddr(t); aErr == nil && a.Zone() == "" {
		a = a.Unmap()
		p, err = netip.PrefixFrom(a, a.BitLen()), nil
	}
	if err != nil {
		return errors.New(strconv.Quote(t) + " must be an address or a range such as 192.0.2.1 or 10.0.0.0/8")
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 { // clients have their IPv4 address
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	n.Prefix = p.Masked()
	return nil
}
