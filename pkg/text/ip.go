package text

import "net/netip"

// ParseIP parses an IP address as a resolver or a browser does, so that it finds where a request
// would go. It also accepts an address that is written as one number, with fewer than four parts,
// or in octal or hexadecimal. It returns IPv4-mapped IPv6 addresses as IPv4 and drops zones.
func ParseIP(host string) (netip.Addr, bool) { return parseIP(host) }
