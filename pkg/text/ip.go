package text

import "net/netip"

// ParseIP reads an address the way a resolver or a browser would, and so the
// way in which a request that names it is sent: also one that is written as a
// single number, with fewer than four parts, or in octal or hexadecimal.
// IPv4 addresses within IPv6 ones are returned as IPv4, zones are dropped.
func ParseIP(host string) (netip.Addr, bool) { return parseIP(host) }
